import { never } from '../../base/errors.ts';
import type { ResourceKind } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import type { FollowedRecord, FollowEvent, Query } from '../follow.ts';
import { EtcdWatch, isPut } from './etcd-watch.ts';
import type { Event, KeyValue, ResponseOp } from '../../../proto/gen/etcd.ts';
import { FollowedBlocks } from './followed-blocks.ts';
import { FollowedRouting } from './followed-routing.ts';
import type { KeyRange } from './keys.ts';
import { isCompacted, listRange } from './paging.ts';
import { retryOnCompaction, type EtcdReader } from './read-blocks.ts';
import { endpointReader, resourceRecord, versionOf } from './records.ts';
import { bytesOf, getRange, type RangeInit, rangeOf, decodeText, txn } from './requests.ts';
import { Unreadable } from '../unreadable.ts';

export interface Follow {
  readonly queries: readonly Query[];
  readonly from: string | undefined;
  readonly pageSize: number;
}

/** A key or a range of keys, and what its keys mean for a query. */
export interface FollowedRange {
  readonly keys: string | KeyRange;
  /** Returns the records of all keys as they were at one revision. */
  readonly begin: (kvs: readonly KeyValue[], revision: bigint) => Promise<readonly FollowedRecord[]>;
  /** Returns the records that the events of one or more transactions change. */
  readonly take: (events: readonly Event[]) => Promise<readonly FollowedRecord[]>;
}

/** Ranges of one query. */
interface Source {
  readonly ranges: readonly FollowedRange[];
  /** Way to resume a stream: without prior state, after listing at that revision, or never. */
  readonly resumes: 'without state' | 'with state' | 'never';
}

/**
 * One reading at one revision and one stream with a watch per range. Where etcd has compacted the history that the stream
 * needs, everything is read again.
 */
export async function* follow(reader: EtcdReader, { queries, from, pageSize }: Follow): AsyncGenerator<FollowEvent> {
  let positions = from === undefined ? undefined : parsePositions(from);
  for (;;) {
    const watch = new EtcdWatch<{ readonly index: number; readonly range: FollowedRange }>(reader.client);
    const sources = queries.map((query, index) => sourceOf({ reader, watch, query, index }));
    const ranges = sources.flatMap((source, index) => source.ranges.map((range) => ({ index, range })));
    try {
      positions = await resume(reader, { sources, positions, pageSize });
      positions ??= yield* snapshot(reader, { ranges, queries, pageSize });
      for (const topic of ranges) watch.follow(topic, topic.range.keys, positions[topic.index] ?? 0n);
      for await (const { topic, events, revision } of watch.batches(reader.signal)) {
        const records = await topic.range.take(events);
        const isOnly = sources[topic.index]?.ranges.length === 1;
        if (isOnly) positions[topic.index] = revision;
        if (records.length > 0) yield { kind: 'changes', records, version: positions.join() };
        else if (isOnly) yield { kind: 'bookmark', version: positions.join() };
      }
    } catch (cause) {
      if (!isCompacted(cause)) throw cause;
      positions = undefined;
    }
  }
}

/** Yields everything there is. A generator of its own, which ends: one that goes on would keep the records. */
async function* snapshot(
  reader: EtcdReader,
  { queries, ...listed }: Parameters<typeof readAll>[1] & { readonly queries: readonly Query[] },
): AsyncGenerator<FollowEvent, bigint[]> {
  const { revision, records } = await retryOnCompaction(async () => readAll(reader, listed));
  const positions = queries.map(() => revision);
  yield { kind: 'snapshot', records, version: positions.join() };
  return positions;
}

function parsePositions(from: string): bigint[] | undefined {
  return /^\d+(,\d+)*$/.test(from) ? from.split(',').map(BigInt) : undefined;
}

/** Restores the state of the sources; undefined when they must be listed again. */
async function resume(
  { client, signal }: EtcdReader,
  {
    sources,
    positions,
    pageSize,
  }: { readonly sources: readonly Source[]; readonly positions: bigint[] | undefined; readonly pageSize: number },
): Promise<bigint[] | undefined> {
  if (positions?.length !== sources.length || sources.some(({ resumes }) => resumes === 'never')) return undefined;
  const { header } = await client.read(txn({ success: [] }), signal);
  // A restored backup may end before the revision that the stream had reached.
  if (positions.some((position) => position > (header?.revision ?? 0n))) return undefined;
  for (const [index, { ranges, resumes }] of sources.entries()) {
    if (resumes === 'without state') continue;
    const revision = positions[index] ?? 0n;
    for (const { keys, begin } of ranges) {
      if (typeof keys === 'string') continue;
      await begin((await listRange(client, keys, { pageSize, revision, signal })).kvs, revision);
    }
  }
  return positions;
}

/** One transaction; the further pages of long ranges are read at its revision. */
async function readAll(
  { client, signal }: EtcdReader,
  { ranges, pageSize }: { readonly ranges: readonly { readonly range: FollowedRange }[]; readonly pageSize: number },
): Promise<{ readonly revision: bigint; readonly records: readonly FollowedRecord[] }> {
  const success = ranges.map(({ range: { keys } }) => getRange({ ...rangeAt(keys), limit: BigInt(pageSize) }));
  const answer = await client.read(txn({ success }), signal);
  const revision = answer.header?.revision ?? 0n;
  const records: FollowedRecord[] = [];
  for (const [index, { range }] of ranges.entries()) {
    const { kvs, more } = pageIn(answer.responses[index]);
    const isCut = more && typeof range.keys !== 'string';
    const all = isCut ? (await listRange(client, range.keys, { pageSize, revision, signal })).kvs : kvs;
    for (const record of await range.begin(all, revision)) records.push(record);
  }
  return { revision, records };
}

function pageIn(part: ResponseOp | undefined): { readonly kvs: readonly KeyValue[]; readonly more: boolean } {
  return part?.response?.$case === 'responseRange' ? part.response.value : { kvs: [], more: false };
}

function rangeAt(keys: string | KeyRange): RangeInit {
  return typeof keys === 'string' ? { key: bytesOf(keys) } : rangeOf(keys);
}

interface SourceParts {
  readonly reader: EtcdReader;
  readonly watch: EtcdWatch<{ readonly index: number; readonly range: FollowedRange }>;
  readonly query: Query;
  readonly index: number;
}

function sourceOf({ reader, watch, query, index }: SourceParts): Source {
  const { keys } = reader;
  switch (query.kind) {
    case 'resources': {
      const { of: kind, name } = query;
      const where = name === undefined ? keys.resources(kind) : keys.resource({ kind, name });
      return { ranges: [resourceRange(reader, { where, kind, index })], resumes: 'without state' };
    }
    case 'other-nodes': {
      const nodes = resourceRange(reader, { where: keys.resources('Node'), kind: 'Node', index });
      return {
        ranges: [query.self === undefined ? nodes : excludingNode(nodes, query.self)],
        resumes: 'without state',
      };
    }
    case 'block-routes': {
      const followed = new FollowedRouting(keys, index);
      return {
        ranges: [
          {
            keys: keys.routing(),
            begin: async (kvs) => Promise.resolve(followed.begin(kvs)),
            take: async (events) => Promise.resolve(followed.take(events)),
          },
        ],
        resumes: 'with state',
      };
    }
    case 'node-blocks': {
      const blocks = new FollowedBlocks(reader, {
        node: query.node,
        query: index,
        leave: (id) => watch.leave(id),
        follow: (range, after) => watch.follow({ index, range }, range.keys, after),
      });
      return { ranges: blocks.ranges(), resumes: 'never' };
    }
    case 'endpoints':
      return { ranges: [endpointRange(reader, query.node, index)], resumes: 'without state' };
    // A cluster whose orchestrator is not the datastore has them mirrored as records.
    case 'derived-resources':
    case 'service-endpoints':
    case 'pods':
      return { ranges: [], resumes: 'without state' };
    default:
      return never(query);
  }
}

function resourceRange(
  { keys }: EtcdReader,
  { where, kind, index }: { readonly where: string | KeyRange; readonly kind: ResourceKind; readonly index: number },
): FollowedRange {
  const read = (kv: KeyValue, isThere: boolean): FollowedRecord =>
    resourceRecord({ keys, kind, query: index }, kv, isThere);
  return rangeOfRecords(where, read);
}

function excludingNode({ begin, take, keys }: FollowedRange, name: string): FollowedRange {
  const isOther = (record: FollowedRecord): boolean => record.kind !== 'resource' || record.which.name !== name;
  return {
    keys,
    begin: async (kvs, revision) => (await begin(kvs, revision)).filter(isOther),
    take: async (events) => (await take(events)).filter(isOther),
  };
}

function endpointRange({ keys }: EtcdReader, node: NodeName | undefined, query: number): FollowedRange {
  const reader = endpointReader(keys);
  return rangeOfRecords(keys.endpoints(node), (kv, isThere) => {
    const base = { kind: 'endpoint', query, key: decodeText(kv.key), version: versionOf(kv) } as const;
    const read = isThere ? reader(kv) : undefined;
    if (read === undefined) return base;
    return read instanceof Unreadable ? { ...base, problem: read.problem } : { ...base, value: read.value };
  });
}

/** A range whose keys are records by themselves. */
function rangeOfRecords(
  keys: string | KeyRange,
  read: (kv: KeyValue, isThere: boolean) => FollowedRecord,
): FollowedRange {
  return {
    keys,
    begin: async (kvs) => Promise.resolve(kvs.map((kv) => read(kv, true))),
    take: async (events) =>
      Promise.resolve(events.flatMap((event) => (event.kv === undefined ? [] : [read(event.kv, isPut(event))]))),
  };
}
