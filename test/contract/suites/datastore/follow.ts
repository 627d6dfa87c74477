import { expect, it } from 'vitest';
import { takeSlot } from '../../../support/block-edits.ts';
import { RecordCache } from '../../../../src/cache/record-cache.ts';
import { policyQueries } from '../../../../src/cache/policy-records.ts';
import type { FollowedRecord, FollowEvent, Query } from '../../../../src/datastore/follow.ts';
import type { Store } from '../../../../src/datastore/store.ts';
import { type Bench, holder, never, pool, type StoreTraits } from './bench.ts';

/** Registers what holds of `follow` in every datastore. `parts` is asked when a test runs. */
export function followContract(
  parts: () => { readonly store: Store; readonly other: Store },
  bench: Bench,
  { resumes }: Pick<StoreTraits, 'resumes'>,
): void {
  const [a, b] = bench.nodes;
  const everything: readonly Query[] = [
    { kind: 'resources', of: 'IPPool' },
    { kind: 'resources', of: 'Node', name: a },
    { kind: 'other-nodes', self: a },
    { kind: 'node-blocks', node: a },
    { kind: 'block-routes' },
    { kind: 'endpoints', node: a },
  ];
  const resumable: readonly Query[] = [{ kind: 'resources', of: 'IPPool' }, { kind: 'block-routes' }];

  /** Follows until the cache holds what is waited for; returns the events. */
  const followUntil = async (
    options: { readonly queries: readonly Query[]; readonly from?: string; readonly cache?: RecordCache },
    isDone: (records: readonly FollowedRecord[]) => boolean,
  ): Promise<FollowEvent[]> => {
    const { queries, cache = new RecordCache(), ...rest } = options;
    const events: FollowEvent[] = [];
    const signal = AbortSignal.timeout(10_000);
    for await (const event of parts().other.follow(queries, { ...rest, signal })) {
      events.push(structuredClone(event));
      cache.apply(structuredClone(event));
      if (isDone([...cache.records()])) return events;
    }
    throw new Error(`not reached: ${[...cache.records()].map(({ kind, key }) => `${kind} ${key}`).join(', ')}`);
  };

  it('yields one snapshot of all queries, which can be cloned and says the same afterwards', async () => {
    const created = await bench.createdBlock('10.0.0.0/26');
    await bench.commit(bench.update(created, takeSlot(created.value, 0, holder('x', b))));
    await bench.commit({ kind: 'put-endpoint', endpoint: bench.endpoint('e') });
    for (const node of [a, b]) await bench.makeNode(node);
    await parts().store.publishNode(b, { ipv4Address: '192.0.2.8/24' }, never);
    const [snapshot, ...more] = await followUntil({ queries: everything }, () => true);
    expect(more).toEqual([]);
    expect(snapshot?.kind).toBe('snapshot');
    const records = snapshot?.kind === 'snapshot' ? snapshot.records : [];
    expect(new Set(records.map(({ query }) => query))).toEqual(new Set(everything.keys()));
    const block = records.find(({ kind }) => kind === 'block');
    expect({ value: block?.value, version: block?.version }).toEqual(await bench.block('10.0.0.0/26'));
    expect(records.find(({ kind }) => kind === 'route')).toMatchObject({ key: '10.0.0.0/26', value: { node: a } });
  });

  it.runIf(resumes)('resumes after a version with what changed since, and nothing else', async () => {
    const { store } = parts();
    const from = await bench.storedPool();
    await bench.createdBlock('10.0.0.0/26', a, from);
    const cache = new RecordCache();
    await followUntil({ queries: resumable, cache }, () => true);
    await store.createResource(pool('green', '10.1.0.0/16'), never);
    await store.deleteResource({ kind: 'IPPool', name: 'green' }, never);
    await bench.createdBlock('10.0.0.64/26', b, from);
    const known = cache.version ?? '';
    const events = await followUntil({ queries: resumable, from: known, cache }, (records) =>
      records.some(({ key }) => key === '10.0.0.64/26'),
    );
    expect(events.map(({ kind }) => kind)).not.toContain('snapshot');
    expect([...cache.records()].filter(({ kind }) => kind === 'route')).toHaveLength(2);
    const yielded = events.flatMap((event) => (event.kind === 'changes' ? event.records.map(({ key }) => key) : []));
    expect(yielded).not.toContain('10.0.0.0/26');
  });

  it('yields the endpoints of all nodes, with their changes', async () => {
    const queries: readonly Query[] = [{ kind: 'endpoints' }];
    const first = bench.endpoint('e', { node: a });
    await bench.commit({ kind: 'put-endpoint', endpoint: first });
    const cache = new RecordCache();
    const seen: string[][] = [];
    const following = followUntil({ queries, cache }, (records) => {
      seen.push(records.flatMap(({ value }) => (value === undefined || !('spec' in value) ? [] : nodeOfRecord(value))));
      return seen.at(-1)?.length === 2;
    });
    // A list from the cache of a server may be a moment behind.
    await expect.poll(() => seen.at(-1)).toEqual([a]);
    await bench.commit({ kind: 'put-endpoint', endpoint: bench.endpoint('f', { node: b }) });
    await following;
    expect(seen.at(-1)?.sort()).toEqual([a, b].sort());
    const addresses = [...cache.records()].map(({ value }) =>
      value !== undefined && 'kind' in value && value.kind === 'WorkloadEndpoint' ? value.spec.ipNetworks : [],
    );
    expect(addresses).toContainEqual(['10.0.0.1/32']);
  });

  it('yields a snapshot of all that policy needs', async () => {
    const [snapshot] = await followUntil({ queries: policyQueries() }, () => true);
    expect(snapshot?.kind).toBe('snapshot');
  });

  it('yields a snapshot where the version cannot be resumed', async () => {
    await bench.storedPool();
    const [event] = await followUntil({ queries: everything, from: 'of another datastore' }, () => true);
    expect(event?.kind).toBe('snapshot');
  });

  it('ends when its reader stops', async () => {
    const created = await bench.createdBlock('10.0.0.0/26');
    const kinds: string[] = [];
    for await (const { kind } of parts().other.follow(everything, { signal: never })) {
      kinds.push(kind);
      if (kind === 'changes') break;
      if (kinds.length === 1) await bench.commit(bench.update(created, takeSlot(created.value, 0, holder('x', a))));
    }
    expect(kinds.slice(0, 1)).toEqual(['snapshot']);
  });

  it('ends at once with its signal: before it begins, while it lists, and while it watches', async () => {
    const eventsUntil = async (stopsAt: 'begin' | 'list' | 'watch'): Promise<number> => {
      const stop = new AbortController();
      let [count, slowestMs] = [0, 0];
      if (stopsAt === 'begin') stop.abort(new Error('enough'));
      const events = parts().other.follow(everything, { signal: stop.signal })[Symbol.asyncIterator]();
      for (;;) {
        const next = events.next();
        if (stopsAt === 'list' || count > 0) stop.abort(new Error('enough'));
        const startMs = performance.now();
        const { done, value } = await next;
        if (stop.signal.aborted) slowestMs = performance.now() - startMs;
        if (done === true) break;
        // Of which there may be any number.
        if (value.kind !== 'bookmark') count += 1;
      }
      expect(slowestMs).toBeLessThan(500);
      return count;
    };
    expect(await eventsUntil('begin')).toBe(0);
    expect(await eventsUntil('list')).toBe(0);
    expect(await eventsUntil('watch')).toBe(1);
  });
}

function nodeOfRecord({ spec }: { readonly spec: object }): readonly string[] {
  return 'node' in spec && typeof spec.node === 'string' ? [spec.node] : [];
}
