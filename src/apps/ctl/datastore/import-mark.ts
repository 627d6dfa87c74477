import * as v from 'valibot';
import { NetplugError } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import type { ClusterInformation } from '../../../model/cluster-information.ts';
import type { Exported } from './export-file.ts';
import { newCluster } from '../../../datastore/keep-cluster-information.ts';

/** Where an import stands, noted beside the lock, so that it can be repeated and undone by anybody with the file. */
const MARK = 'netplug/import';
/** An annotation takes 256 KiB with all others. */
const MAX_MARK = 200_000;

const importMark = v.object({
  checksum: v.string(),
  /** What was there before, and therefore stays when the import is undone. */
  kept: v.array(v.string()),
  /** What the datastore was before; nothing when nobody had noted anything. */
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

/** Undefined when nothing has been imported since the datastore was unlocked last. */
export function readMark(cluster: ClusterInformation | undefined): ImportMark | undefined {
  const text = cluster?.metadata.annotations?.[MARK];
  if (text === undefined) return undefined;
  const read = v.safeParse(importMark, tryParseJson(text));
  if (read.success) return read.output;
  throw new NetplugError('store/corrupt', `Cannot tell what was imported: annotation ${MARK} cannot be understood`, {
    hint: 'Compare the datastore with the file yourself, and end the import with "netplugctl datastore unlock --force"',
  });
}

/** The cluster while the file is imported: locked, and with the id it had where it comes from. */
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
    throw new NetplugError('cli/import-refused', 'Cannot import: too much of the file is there already to note it', {
      hint: 'Empty the datastore first, so that undoing the import could tell apart what it brought',
    });
  }
  const annotations = { ...others, ...(text === undefined ? {} : { [MARK]: text }) };
  const hasSome = Object.keys(annotations).length > 0;
  return { ...cluster, metadata: { ...metadata, ...(hasSome ? { annotations } : {}) } };
}

/** The cluster as it was before the import; undefined when there was none. */
export function withoutImport(cluster: ClusterInformation, mark: ImportMark): ClusterInformation | undefined {
  if (mark.before === undefined) return undefined;
  const { clusterGUID: _, clusterType: _type, ...spec } = cluster.spec;
  return withMark({ ...cluster, spec: { ...spec, ...mark.before } }, undefined);
}
