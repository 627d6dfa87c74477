import { describe, expect, it } from 'vitest';
import { virtualClock } from '../base/clock.ts';
import { seededRandom } from '../base/random.ts';
import { CLUSTER_INFORMATION_ID, type ClusterInformation } from '../model/cluster-information.ts';
import { keepClusterInformation, newCluster, withNote } from './keep-cluster-information.ts';
import { MemoryDatabase } from './memory/memory-database.ts';
import { openMemoryStore } from './memory/memory-store.ts';

const never = new AbortController().signal;
const OWN = { version: 'v3.27.1', types: ['kv'] };
const noted = (spec: Partial<ClusterInformation['spec']>): ClusterInformation => ({
  ...newCluster(),
  spec: { clusterGUID: 'one', clusterType: 'kv', netplugVersion: 'v3.27.1', datastoreReady: true, ...spec },
});

describe('the note of a program', () => {
  it('makes what is missing', () => {
    expect(withNote(undefined, OWN, 'one')).toEqual(noted({}));
  });

  it('is nothing when all of it is known', () => {
    expect(withNote(noted({}), OWN, 'two')).toBeUndefined();
    expect(withNote(noted({ clusterType: 'orch,kv' }), OWN, 'two')).toBeUndefined();
  });

  it('raises the version and never lowers it [cluster-version]', () => {
    expect(withNote(noted({ netplugVersion: 'v3.27.0' }), OWN, 'two')).toEqual(noted({}));
    expect(withNote(noted({ netplugVersion: 'v3.28.0' }), OWN, 'two')).toBeUndefined();
    expect(withNote(noted({ netplugVersion: 'nightly' }), OWN, 'two')).toBeUndefined();
  });

  it('adds words and leaves the lock, the id and what it does not know', () => {
    const before = noted({ datastoreReady: false });
    const odd = { ...before, spec: { ...before.spec, variant: 'x' } };
    expect(withNote(odd, { ...OWN, types: ['kv', 'bgp'] }, 'two')).toEqual({
      ...odd,
      spec: { ...odd.spec, clusterType: 'kv,bgp' },
    });
  });

  it('is kept by many at once under one id', async () => {
    const database = new MemoryDatabase();
    const nodes = Array.from({ length: 20 }, (_, index) => ({
      store: openMemoryStore(database, {
        pause: async () => new Promise((resolve) => setTimeout(resolve, index % 3)),
      }),
      clock: virtualClock(),
      random: seededRandom(index),
    }));
    const ids = new Set<string | undefined>();
    database.listen((state) => {
      for (const { value } of state.resources.values()) {
        if (typeof value !== 'symbol' && value.kind === 'ClusterInformation') ids.add(value.spec.clusterGUID);
      }
    });
    const types = ['kv', 'bgp', 'orch'];
    await Promise.all(
      nodes.map(async (node, index) =>
        keepClusterInformation(node, { version: `v3.27.${String(index % 7)}`, types: [types[index % 3]!] }, never),
      ),
    );
    const found = await nodes[0]!.store.findResource(CLUSTER_INFORMATION_ID, never);
    expect(found?.spec).toMatchObject({ netplugVersion: 'v3.27.6', datastoreReady: true });
    expect(found?.spec.clusterType?.split(',').sort()).toEqual([...types].sort());
    expect(ids.size).toBe(1);
  });
});
