import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openEtcdLease } from '../../src/datastore/kv/etcd-lease.ts';
import { Keys } from '../../src/datastore/kv/keys.ts';
import { program } from '../support/components.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { openLease } from '../support/leader-candidate.ts';
import { until } from '../support/until.ts';
import { leaderProcessContract } from './suites/runtime/leader-processes.ts';
import { leaderContract } from './suites/runtime/leader.ts';

// Every lease has a name of its own.
let etcd: Etcd;
beforeAll(async () => {
  etcd = await startEtcd();
});
afterAll(async () => etcd?.[Symbol.asyncDispose]());
const stays = async (): Promise<void> => Promise.resolve();

leaderContract('etcd', async () =>
  Promise.resolve({
    candidate: (options, clock) => openLease({ etcd: etcd.url }, options, clock),
    [Symbol.asyncDispose]: stays,
  }),
);

leaderProcessContract('etcd', async () =>
  Promise.resolve({
    server: { etcd: etcd.url },
    pause: async () => etcd.pause(),
    resume: async () => Promise.resolve(etcd.resume()),
    [Symbol.asyncDispose]: stays,
  }),
);

it('a leader key without a lease, as a copy of the keys leaves it, does not keep candidates waiting', async () => {
  const never = new AbortController().signal;
  const key = new Keys().leader('copied');
  execFileSync(program('etcdctl'), [`--endpoints=${etcd.url}`, 'put', key, 'a-leader-of-long-ago']);
  await using lease = openLease({ etcd: etcd.url }, { name: 'copied', holder: 'b', durationMs: 60_000 });
  await using other = openLease({ etcd: etcd.url }, { name: 'copied', holder: 'c', durationMs: 60_000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await other.hold(never)).toBe(false);
});

it('a leader whose key is deleted by hand learns it from the next renewal', async () => {
  const never = new AbortController().signal;
  await using lease = openLease({ etcd: etcd.url }, { name: 'deleted', holder: 'a', durationMs: 30_000 });
  await using other = openLease({ etcd: etcd.url }, { name: 'deleted', holder: 'b', durationMs: 30_000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await lease.hold(never)).toBe(true);
  execFileSync(program('etcdctl'), [`--endpoints=${etcd.url}`, 'del', new Keys().leader('deleted')]);
  expect(await other.hold(never)).toBe(true);
  await until(async () => !(await lease.hold(never)), 'the old leader knows', 60_000, 20);
  expect(await lease.hold(never)).toBe(false);
  expect(await other.hold(never)).toBe(true);
});

it('a leader keeps its lease when etcd restarts and the stream of its renewals is opened again', async () => {
  const never = new AbortController().signal;
  await using lease = openLease({ etcd: etcd.url }, { name: 'restarted', holder: 'a', durationMs: 30_000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await lease.hold(never)).toBe(true);
  await etcd.restart();
  // The first may meet the connection that the restart has broken.
  const answers: unknown[] = [];
  await until(
    async () => {
      answers.push(await lease.hold(never).catch(({ code }: { code: unknown }) => code));
      return answers.at(-1) !== 'store/unavailable';
    },
    'the lease is renewed',
    60_000,
    20,
  );
  expect(answers.at(-1)).toBe(true);
});

it('a renewal that is given up does not answer the next one', async () => {
  const never = new AbortController().signal;
  await using lease = openLease({ etcd: etcd.url }, { name: 'given-up', holder: 'a', durationMs: 60_000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await lease.hold(never)).toBe(true);
  await etcd.pause();
  await expect(lease.hold(AbortSignal.timeout(300))).rejects.toMatchObject({ code: 'store/unavailable' });
  etcd.resume();
  for (let times = 0; times < 3; times += 1) expect(await lease.hold(never)).toBe(true);
});

it('a lease that ended at etcd is lost although the stream of its renewals stands, and can be acquired again', async () => {
  const never = new AbortController().signal;
  const endpoints = { from: 'list', urls: [etcd.url] } as const;
  const connection = { endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined };
  await using lease = openEtcdLease(connection, { name: 'revoked', holder: 'a', durationMs: 60_000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await lease.hold(never)).toBe(true);
  const id = lease.held?.lease ?? 0n;
  execFileSync(program('etcdctl'), [`--endpoints=${etcd.url}`, 'lease', 'revoke', id.toString(16)]);
  expect(await lease.hold(never)).toBe(false);
  expect(await lease.hold(never)).toBe(true);
  expect(await lease.hold(never)).toBe(true);
});

it('a candidate leads over the second endpoint while the first does not respond', async () => {
  await using silent = await startEtcd();
  await silent.pause();
  const endpoints = { from: 'list', urls: [silent.url, etcd.url] } as const;
  const connection = { endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined };
  await using lease = openEtcdLease(connection, { name: 'second', holder: 'a', durationMs: 12_000 });
  await until(async () => lease.hold(AbortSignal.timeout(10_000)).catch(() => false), 'it leads', 60_000, 20);
  expect(await lease.hold(AbortSignal.timeout(10_000))).toBe(true);
  silent.resume();
});
