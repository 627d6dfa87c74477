import { settingQueries } from '../node-settings.ts';
import { sourcesOf } from '../orch/query-sources.ts';
import { holderLabel, holderLabelsIn } from '../orch/names.ts';
import type { FollowedRecord, Query } from '../follow.ts';
import { readObject } from '../../kube/objects.ts';
import type { ListOptions } from '../../kube/orch-api.ts';
import type { Collection } from '../../kube/paths.ts';
import type { NodeName } from '../../model/names.ts';
import { BLOCKS } from '../orch/block-objects.ts';
import { ownBlockMetadata } from '../orch/node-blocks.ts';
import { OWN_BLOCKS, storedTopicOf, type TopicQuery } from './topics.ts';

/** Objects that calls need and that netplug-typha serves as they are stored. */
export interface StoredObjects extends TopicQuery {
  /** How they are watched at the API where no server sends them. */
  readonly collection: Collection;
  readonly options: ListOptions;
}

/** Returns what marks the records of own blocks that a client of the node may see. */
export function ownMark(node: NodeName): string {
  return holderLabel(node);
}

/** Returns the marks of a record of own blocks: one for each node that owns the block or holds an address of it. */
export function ownMarksOf({ stored }: FollowedRecord): readonly string[] {
  return holderLabelsIn(readObject(stored)?.metadata.labels ?? {});
}

/** Returns what calls of the node need and netplug-typha serves. */
export function storedObjects(node: NodeName): readonly StoredObjects[] {
  const queries: readonly Query[] = [...settingQueries(node), { kind: 'derived-resources', from: 'Namespace' }];
  return [
    ...queries.flatMap((query): StoredObjects[] => {
      const stored = storedTopicOf(query);
      const [source] = sourcesOf(query, 0);
      if (stored === undefined || source?.watched === undefined) return [];
      const { collection, options } = source.watched;
      return [{ ...stored, collection, options }];
    }),
    { topic: OWN_BLOCKS, isIncluded: () => true, collection: BLOCKS, options: ownBlockMetadata(node) },
  ];
}
