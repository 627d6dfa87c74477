import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Keys } from '../../src/datastore/kv/keys.ts';
import { program } from '../support/components.ts';
import { startEtcd } from '../support/etcd.ts';
import { openLease } from '../support/leader-candidate.ts';
import { leaderProcessContract } from './suites/runtime/leader-processes.ts';
import { leaderContract } from './suites/runtime/leader.ts';

leaderContract('etcd', async () => {
  const etcd = await startEtcd();
  return {
    candidate: (options, clock) => openLease({ etcd: etcd.url }, options, clock),
    [Symbol.asyncDispose]: async () => etcd[Symbol.asyncDispose](),
  };
});

leaderProcessContract('etcd', async () => {
  const etcd = await startEtcd();
  return {
    server: { etcd: etcd.url },
    pause: async () => Promise.resolve(etcd.pause()),
    resume: async () => Promise.resolve(etcd.resume()),
    [Symbol.asyncDispose]: async () => etcd[Symbol.asyncDispose](),
  };
});

it('a leader key without a lease, as a copy of the keys leaves it, does not keep candidates waiting', async () => {
  await using etcd = await startEtcd();
  const never = new AbortController().signal;
  const key = new Keys().leader('copied');
  execFileSync(program('etcdctl'), [`--endpoints=${etcd.url}`, 'put', key, 'a-leader-of-long-ago']);
  await using lease = openLease({ etcd: etcd.url }, { name: 'copied', holder: 'b', durationMs: 3000 });
  await using other = openLease({ etcd: etcd.url }, { name: 'copied', holder: 'c', durationMs: 3000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await other.hold(never)).toBe(false);
});

it('a leader whose key is deleted by hand learns it from the next renewal', async () => {
  await using etcd = await startEtcd();
  const never = new AbortController().signal;
  await using lease = openLease({ etcd: etcd.url }, { name: 'deleted', holder: 'a', durationMs: 3000 });
  await using other = openLease({ etcd: etcd.url }, { name: 'deleted', holder: 'b', durationMs: 3000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await lease.hold(never)).toBe(true);
  execFileSync(program('etcdctl'), [`--endpoints=${etcd.url}`, 'del', new Keys().leader('deleted')]);
  expect(await other.hold(never)).toBe(true);
  await sleep(500);
  expect(await lease.hold(never)).toBe(false);
  expect(await lease.hold(never)).toBe(false);
  expect(await other.hold(never)).toBe(true);
});

it('a leader keeps its lease when etcd restarts and its renewals must begin anew', async () => {
  await using etcd = await startEtcd();
  const never = new AbortController().signal;
  await using lease = openLease({ etcd: etcd.url }, { name: 'restarted', holder: 'a', durationMs: 6000 });
  expect(await lease.hold(never)).toBe(true);
  expect(await lease.hold(never)).toBe(true);
  await etcd.restart();
  // The first may meet the connection that the restart has broken.
  const first = await lease.hold(never).catch((cause: unknown) => cause);
  if (first !== true) expect(first).toMatchObject({ code: 'store/unavailable' });
  expect(await lease.hold(never)).toBe(true);
});
