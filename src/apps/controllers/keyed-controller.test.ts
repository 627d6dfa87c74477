import { expect, it } from 'vitest';
import { type Facts, NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import type { FollowedRecord } from '../../datastore/follow.ts';
import { lockOf } from '../../../test/support/fixtures.ts';
import { confirmsUnlocked } from './confirm-unlocked.ts';
import type { ControllerPorts } from './controller.ts';
import { keyedController } from './keyed-controller.ts';
import type { Observed, ObservedChange } from './observed.ts';

const FEED = { side: 'datastore', query: { kind: 'resources', of: 'Profile' } } as const;
const KEYS = Array.from({ length: 200 }, (_, index) => `key-${String(index)}`);
const never = new AbortController().signal;

it('does all other keys when one fails, and keeps that one due', async () => {
  const { run, done, failWith } = start();
  failWith.set('key-0', new NetplugError('internal/invariant', 'the request is too large'));
  await expect(run.reconcile({ isFull: false }, never)).rejects.toThrow('too large');
  expect(done.toSorted()).toEqual(KEYS.slice(1).toSorted());
  failWith.clear();
  await run.reconcile({ isFull: false }, never);
  expect(done).toHaveLength(KEYS.length);
});

it('keeps every key due that it has not done when the datastore is unavailable', async () => {
  const { run, done, failWith } = start();
  for (const key of KEYS.slice(5)) failWith.set(key, new NetplugError('store/unavailable', 'no answer'));
  await expect(run.reconcile({ isFull: false }, never)).rejects.toThrow('no answer');
  expect(done).toHaveLength(5);
  failWith.clear();
  await run.reconcile({ isFull: false }, never);
  expect(done.toSorted()).toEqual(KEYS.toSorted());
});

it('reports what the datastore refuses for what it is, does all else, and tries it again when the key changes', async () => {
  const { run, done, failWith, problems } = start();
  failWith.set('key-0', new NetplugError('resource/invalid', 'the name is too long'));
  await run.reconcile({ isFull: false }, never);
  run.note([changeOf('key-0')]);
  await run.reconcile({ isFull: false }, never);
  expect(done).toHaveLength(KEYS.length - 1);
  expect(problems).toEqual(['the name is too long']);
  failWith.clear();
  expect(run.note([])).toBe(false);
  expect(run.note([changeOf('key-0')])).toBe(true);
  await run.reconcile({ isFull: false }, never);
  expect(done).toHaveLength(KEYS.length);
});

it('deletes nothing unless the cluster is confirmed directly before, and does all else', async () => {
  const { run, done, confirmed } = start({ deleted: ['key-0', 'key-7'] });
  confirmed.failure = new NetplugError('store/unavailable', 'no answer of the API server');
  await expect(run.reconcile({ isFull: false }, never)).rejects.toThrow('no answer of the API server');
  expect(done).not.toContain('key-0');
  confirmed.failure = new NetplugError('store/corrupt', 'cannot be decoded');
  run.note(KEYS.map(changeOf));
  await expect(run.reconcile({ isFull: false }, never)).rejects.toThrow('cannot be decoded');
  expect(new Set(done)).toEqual(new Set(KEYS.filter((key) => key !== 'key-0' && key !== 'key-7')));
  confirmed.failure = undefined;
  await run.reconcile({ isFull: false }, never);
  expect(done.slice(-2).toSorted()).toEqual(['key-0', 'key-7']);
});

it('writes nothing while the datastore is locked, and goes on afterwards', async () => {
  const { run, done, cluster } = start();
  cluster.isLocked = true;
  await expect(run.reconcile({ isFull: false }, never)).rejects.toMatchObject({ code: 'store/locked' });
  expect(done).toEqual([]);
  cluster.isLocked = false;
  await run.reconcile({ isFull: false }, never);
  expect(done.toSorted()).toEqual(KEYS.toSorted());
  cluster.isLocked = true;
  cluster.nowMs += 1000;
  run.note(KEYS.map(changeOf));
  await expect(run.reconcile({ isFull: false }, never)).rejects.toMatchObject({ code: 'store/locked' });
  expect(done).toHaveLength(KEYS.length);
});

it('compares everything in a full run, and acts only on what differs from the desired state', async () => {
  const { run, done, failWith, observedKeys } = start({ settled: KEYS.slice(2) });
  for (const key of KEYS) observedKeys.add(key);
  await run.reconcile({ isFull: false }, never);
  expect(done).toEqual(['key-0', 'key-1']);
  failWith.set('key-0', new NetplugError('resource/invalid', 'the name is too long'));
  await run.reconcile({ isFull: true }, never);
  expect(done).toEqual(['key-0', 'key-1', 'key-1']);
  failWith.clear();
  await run.reconcile({ isFull: true }, never);
  expect(done).toEqual(['key-0', 'key-1', 'key-1', 'key-0', 'key-1']);
});

it('forgets in a full run what was refused and is in the desired state since', async () => {
  const settled: string[] = [];
  const { run, failWith, observedKeys, problemCounts } = start({ settled });
  for (const key of KEYS) observedKeys.add(key);
  failWith.set('key-0', new NetplugError('resource/invalid', 'the name is too long'));
  await run.reconcile({ isFull: false }, never);
  settled.push('key-0');
  await run.reconcile({ isFull: true }, never);
  expect(problemCounts).toEqual([1, 0]);
});

/** A controller with all keys due, which notes the keys that it has done. */
function start({
  deleted = [],
  settled = [],
}: { readonly deleted?: readonly string[]; readonly settled?: readonly string[] } = {}) {
  const done: string[] = [];
  const failWith = new Map<string, Error>();
  const controller = keyedController<{ readonly kind: 'put' | 'delete'; readonly key: string }>({
    name: 'test',
    feeds: [FEED],
    keysOf: ({ id }) => [id],
    plan: (key) => ({
      changes: settled.includes(key) ? [] : [{ kind: deleted.includes(key) ? 'delete' : 'put', key }],
    }),
    apply: async ({ key }) => {
      await Promise.resolve();
      const failure = failWith.get(key);
      if (failure !== undefined) throw failure;
      done.push(key);
    },
  });
  const problems: unknown[] = [];
  const log = { ...silentLog, warning: (_: string, facts: Facts = {}) => problems.push(facts['problem']) };
  const problemCounts: number[] = [];
  const metrics = {
    setProblems: (_: string, count: number) => problemCounts.push(count),
    countChange: () => undefined,
  };
  const observedKeys = new Set<string>();
  const record = { kind: 'resource' } as unknown as FollowedRecord;
  const observed: Pick<Observed, 'find' | 'all'> = {
    find: () => undefined,
    all: () => [...observedKeys].map((key) => [key, record] as const),
  };
  const confirmed: { failure: Error | undefined } = { failure: undefined };
  const confirmCluster = async (): Promise<void> => {
    await Promise.resolve();
    if (confirmed.failure !== undefined) throw confirmed.failure;
  };
  const cluster = { isLocked: false, nowMs: 0 };
  const confirmUnlocked = confirmsUnlocked({
    store: { findResource: async () => Promise.resolve(lockOf(cluster.isLocked ? 'locked' : 'unlocked')) },
    clock: { monotonic: () => cluster.nowMs },
  } as unknown as ControllerPorts);
  const ports = { metrics, log, confirmCluster, confirmUnlocked } as unknown as ControllerPorts;
  const run = controller.start(ports, observed as Observed);
  run.note(KEYS.map(changeOf));
  return { run, done, failWith, problems, problemCounts, confirmed, observedKeys, cluster };
}

function changeOf(id: string): ObservedChange {
  return { feed: FEED, id, before: undefined, after: undefined };
}
