import * as v from 'valibot';
import { NetplugError } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import type { ClusterInformation } from '../../../model/cluster-information.ts';
import type { Exported } from './export-file.ts';
import { newCluster } from '../../../datastore/keep-cluster-information.ts';

/** Annotation of ClusterInformation with the progress of an import, from which any holder of the file can resume or undo it. */
const MARK = 'netplug/import';
/** All annotations together must not exceed 256 KiB. */
const MAX_MARK = 200_000;

const importMark = v.object({
  checksum: v.string(),
  /** Records that existed before, which an undo keeps. */
  kept: v.array(v.string()),
  /** ClusterInformation before the import; absent when there was none. */
  before: v.exactOptional(
    v.object({
      clusterGUID: v.exactOptional(v.string()),
      clusterType: v.exactOptional(v.string()),
      datastoreReady: v.boolean(),
    }),
  ),
  isVerified: v.boolean(),
});

export type ImportMark = Readonly<v.InferOutput<typeof importMark>>;

/** Returns the mark of an import; undefined when nothing was imported since the datastore was last unlocked. */
export function readMark(cluster: ClusterInformation | undefined): ImportMark | undefined {
  const text = cluster?.metadata.annotations?.[MARK];
  if (text === undefined) return undefined;
  const read = v.safeParse(importMark, tryParseJson(text));
  if (read.success) return read.output;
  throw new NetplugError('store/corrupt', `Cannot tell what was imported: annotation ${MARK} cannot be decoded`, {
    hint: 'Compare the datastore with the file manually, then finish with "netplugctl datastore unlock --force"',
  });
}

/** Returns ClusterInformation for the time of the import: locked, with the cluster id of the file. */
export function beginMark(
  before: ClusterInformation | undefined,
  { checksum, cluster }: Pick<Exported, 'checksum' | 'cluster'>,
  { kept, type }: { readonly kept: readonly string[]; readonly type: 'kv' | 'orch' },
): ClusterInformation {
  const own = before ?? newCluster();
  const { clusterGUID, clusterType, datastoreReady } = own.spec;
  const mark: ImportMark = {
    checksum,
    kept: [...kept],
    ...(before === undefined
      ? {}
      : {
          before: {
            ...(clusterGUID === undefined ? {} : { clusterGUID }),
            ...(clusterType === undefined ? {} : { clusterType }),
            datastoreReady,
          },
        }),
    isVerified: false,
  };
  const { clusterGUID: guid, clusterType: words = '', netplugVersion } = cluster.spec;
  const version = own.spec.netplugVersion ?? netplugVersion;
  const spec = {
    ...own.spec,
    ...(guid === undefined ? {} : { clusterGUID: guid }),
    clusterType: [type, ...words.split(',').filter((word) => !['', 'kv', 'orch'].includes(word))].join(','),
    ...(version === undefined ? {} : { netplugVersion: version }),
    datastoreReady: false,
  };
  return withMark({ ...own, spec }, mark);
}

export function withMark(cluster: ClusterInformation, mark: ImportMark | undefined): ClusterInformation {
  const { annotations: { [MARK]: _, ...others } = {}, ...metadata } = cluster.metadata;
  const text = mark === undefined ? undefined : JSON.stringify(mark);
  if (text !== undefined && text.length > MAX_MARK) {
    throw new NetplugError(
      'cli/import-refused',
      'Cannot import: too many records of the file exist already to record them',
      {
        hint: 'Empty the datastore first',
      },
    );
  }
  const annotations = { ...others, ...(text === undefined ? {} : { [MARK]: text }) };
  const hasSome = Object.keys(annotations).length > 0;
  return { ...cluster, metadata: { ...metadata, ...(hasSome ? { annotations } : {}) } };
}

/** Returns ClusterInformation as it was before the import; undefined when there was none. */
export function withoutImport(cluster: ClusterInformation, mark: ImportMark): ClusterInformation | undefined {
  if (mark.before === undefined) return undefined;
  const { clusterGUID: _, clusterType: _type, ...spec } = cluster.spec;
  return withMark({ ...cluster, spec: { ...spec, ...mark.before } }, undefined);
}
