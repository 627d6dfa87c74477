// An etcd that is restored from a backup, and that other writers bring to the revision that a follower had reached before
// the follower connects again.
import { expect, it } from 'vitest';
import { SettingsFollower } from '../../src/apps/agent/network/policy/follow-settings.ts';
import { SideFollower } from '../../src/apps/controllers/follow-side.ts';
import { type Feed, Observed } from '../../src/apps/controllers/observed.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { followPolicyRecords, PolicyCache } from '../../src/cache/policy-records.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { nodeName } from '../support/fixtures.ts';

const never = new AbortController().signal;
const WRITES = 8;

/** Something that follows one record, on and off. */
interface Following {
  /** The names of what it holds of that record. */
  readonly names: () => readonly string[];
  readonly run: (signal: AbortSignal) => Promise<void>;
}

function open({ port }: Etcd): Store {
  const urls = [`http://127.0.0.1:${String(port)}`];
  const files = { keyFile: undefined, certFile: undefined, caCertFile: undefined };
  return openKvStore({ endpoints: { from: 'list', urls }, ...files });
}

const policy: AnyResource = {
  apiVersion: 'netplug.io/v3',
  kind: 'GlobalNetworkPolicy',
  metadata: { name: 'removed-by-restore' },
  spec: { selector: 'all()', types: ['Ingress'], ingress: [{ action: 'Allow' }] },
};
const settings: AnyResource = {
  apiVersion: 'netplug.io/v3',
  kind: 'AgentConfiguration',
  metadata: { name: 'default' },
  spec: { policyLogPrefix: 'removed-by-restore' },
};

function policies(store: Store): Following {
  const cache = new PolicyCache();
  return {
    names: () =>
      [...cache.records.records()].flatMap((record) => {
        const name = record.kind === 'resource' ? record.which.name : '';
        return name === policy.metadata.name ? [name] : [];
      }),
    run: async (signal) => {
      for await (const _change of followPolicyRecords(store, cache, signal));
    },
  };
}

function settingsOfNode(store: Store): Following {
  let prefix = '';
  const follower = new SettingsFollower({
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    env: {},
    node: nodeName('n1'),
    store,
    onChange: ({ policyLogPrefix }) => {
      prefix = policyLogPrefix;
    },
  });
  return {
    names: () => (prefix === 'removed-by-restore' ? [prefix] : []),
    run: async (signal) => follower.run(signal),
  };
}

function mirrored(store: Store): Following {
  const feed: Feed = { side: 'datastore', query: { kind: 'resources', of: 'GlobalNetworkPolicy' } };
  const observed = new Observed();
  const ports = {
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    store,
    confirmCluster: async () => Promise.resolve(),
    confirmUnlocked: async () => Promise.resolve(),
  };
  const follower = new SideFollower(ports, 'datastore', { feeds: [feed], observed });
  return {
    names: () =>
      [...observed.all(feed)].flatMap(([, record]) => (record.kind === 'resource' ? [record.which.name] : [])),
    run: async (signal) => follower.run(() => undefined, signal),
  };
}

it.each([
  ['policies', policy, policies],
  ['settings of agents', settings, settingsOfNode],
  ['what controllers mirror', policy, mirrored],
])(
  '%s: a record that a restored backup lacks is dropped, although the revision was reached again',
  async (_, record, following) => {
    await using etcd = await startEtcd();
    const restore = await etcd.backUp();
    await using store = open(etcd);
    await store.createResource(record, never);
    const { names, run } = following(store);
    const first = new AbortController();
    const before = run(first.signal).catch(() => undefined);
    await expect.poll(names).toEqual(['removed-by-restore']);
    first.abort();
    await before;
    await restore();
    for (let index = 0; index < WRITES; index += 1) {
      const name = `node-${String(index)}`;
      await store.createResource({ apiVersion: 'netplug.io/v3', kind: 'Node', metadata: { name }, spec: {} }, never);
    }
    const second = new AbortController();
    const after = run(second.signal).catch(() => undefined);
    await expect.poll(names).toEqual([]);
    second.abort();
    await after;
  },
  60_000,
);
