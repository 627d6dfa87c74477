import { ownValue } from '../../base/own-value.ts';
import { forEachLimit } from '../../base/for-each-limit.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { ListOptions, OrchApi } from '../../kube/orch-api.ts';
import type { ObjectChange } from '../../kube/shared-watches.ts';
import type { NodeName } from '../../model/names.ts';
import type { FollowedRecord } from '../follow.ts';
import { BLOCKS, type BlockVersion, readBlock, versionOf } from './block-objects.ts';
import { holderLabel } from './names.ts';
import { type Source, type SourceEvent, watchedSource } from './source.ts';
import { found } from './unreadable.ts';
import type { WrittenBlocks } from './written-blocks.ts';
import { Unreadable } from '../unreadable.ts';

const READS_AT_ONCE = 4;

/**
 * Which blocks are watched for those of a node: whole blocks of the node, the metadata of these, or the metadata of all, which
 * routes need too.
 */
export type WatchedBlocks = 'own' | 'own-metadata' | 'all-metadata';

const METADATA = { only: 'names' } as const;

/** Selects the blocks that the node owns or holds an address of. The API reports a block that loses the label as deleted. */
function ownBlocks(node: NodeName): ListOptions {
  return { labelSelector: holderLabel(node) };
}

/** Selects the metadata of these blocks. */
export function ownBlockMetadata(node: NodeName): ListOptions {
  return { ...METADATA, ...ownBlocks(node) };
}

/** Returns the source of whole blocks that the node owns or holds an address of, with a watch of these blocks alone. */
export function nodeBlockSource(node: NodeName, query: number): Source {
  const watched = {
    collection: BLOCKS,
    options: ownBlocks(node),
    recordsIn: (object: ApiObject) => [blockRecord(object, query)],
  };
  return watchedSource(watched, { canResume: true });
}

/** Metadata of blocks that is followed in place of the blocks, and what this process writes of them. */
export interface BlockMetadata {
  readonly watched: Exclude<WatchedBlocks, 'own'>;
  readonly written: WrittenBlocks;
}

/**
 * Returns the same source from a watch of metadata, which others share or send. It reads a block when the metadata shows a version
 * that it does not have and this process has not written. Blocks are always read afresh.
 */
export function metadataBlockSource(node: NodeName, query: number, metadata: BlockMetadata): Source {
  return {
    follow: (api, _options, signal) => followMetadata({ api, node, query, metadata }, signal),
    watched: undefined,
    resume: undefined,
  };
}

interface Followed {
  readonly api: OrchApi;
  readonly node: NodeName;
  readonly query: number;
  readonly metadata: BlockMetadata;
}

async function* followMetadata(
  { api, node, query, metadata }: Followed,
  signal: AbortSignal,
): AsyncGenerator<SourceEvent> {
  const label = holderLabel(node);
  /** The versions that were yielded, by name. They may be ahead of the watch. */
  const known = new Map<string, BlockVersion>();
  const remember = (object: ApiObject): FollowedRecord => {
    known.set(object.metadata.name, versionOf(object));
    return blockRecord(object, query);
  };
  const forget = (name: string): readonly FollowedRecord[] =>
    known.delete(name) ? [{ kind: 'block', query, key: name, version: '' }] : [];
  const recordsAfter = async ({ before, after }: ObjectChange): Promise<readonly FollowedRecord[]> => {
    const object = after ?? before;
    if (object === undefined) return [];
    const { name } = object.metadata;
    const have = known.get(name);
    if (after === undefined) return have?.uid === versionOf(object).uid ? forget(name) : [];
    const isNext = isForward({ before, after });
    if (have !== undefined && isNext && isAtLeast(have, versionOf(after))) return [];
    if (!isHolder(after, label)) return forget(name);
    const ours = isNext ? await metadata.written.find(after, signal) : undefined;
    const now = ours ?? found(await api.get(BLOCKS, name, signal))[0];
    return now !== undefined && isHolder(now, label) ? [remember(now)] : forget(name);
  };
  const options = metadata.watched === 'own-metadata' ? ownBlockMetadata(node) : METADATA;
  for await (const event of api.sharedWatch(BLOCKS, options, signal)) {
    const { version } = event;
    if (event.kind === 'all') {
      // The cache of the watch may be old by now, and has no bodies.
      yield { kind: 'all', records: (await api.list(BLOCKS, ownBlocks(node), signal)).map(remember), version };
      continue;
    }
    const concerned = event.changes.filter(
      ({ before, after }) =>
        [before, after].some((object) => object !== undefined && isHolder(object, label)) ||
        known.has((after ?? before)?.metadata.name ?? ''),
    );
    const records: FollowedRecord[] = [];
    await forEachLimit(concerned, READS_AT_ONCE, async (change) => {
      records.push(...(await recordsAfter(change)));
    });
    yield { kind: 'changes', records, version };
  }
}

/** Reports whether the node owns the block or holds an address of it. */
function isHolder({ metadata }: ApiObject, label: string): boolean {
  return ownValue(metadata.labels, label) !== undefined;
}

/** Reports whether the version increased. That of a restored API server may decrease, and be used again. */
function isForward({ before, after }: ObjectChange): boolean {
  return before === undefined || after === undefined || !isAtLeast(versionOf(before), versionOf(after));
}

function isAtLeast(one: BlockVersion, other: BlockVersion): boolean {
  return one.uid === other.uid && Number(one.resourceVersion) >= Number(other.resourceVersion);
}

function blockRecord(object: ApiObject, query: number): FollowedRecord {
  const read = readBlock(object);
  const base = { kind: 'block', query, key: object.metadata.name } as const;
  if (read instanceof Unreadable) {
    return { ...base, version: object.metadata.resourceVersion ?? '', problem: read.problem };
  }
  return { ...base, ...read };
}
