import { isDeepStrictEqual } from 'node:util';
import { ownValue } from '../../../base/own-value.ts';
import { sha256Of } from '../../../base/sha256.ts';
import { NetplugError } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { decodeEndpoint } from '../../../datastore/stored-resource.ts';
import type { ClusterInformation } from '../../../model/cluster-information.ts';
import { decodeStoredResource } from '../../../model/decode-resource.ts';
import { decodeBlock, encodeBlock } from '../../../model/ip-block-codec.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import { applyOperations, reclaimOperations } from '../../../model/slot-operation.ts';
import type { Resource } from '../../../model/resource.ts';
import { isRecord } from '../../../model/read-schema.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { type Contents, isPlain, type PlainResource } from './contents.ts';

const FORMAT = 'netplug-datastore/1';

/** File that `datastore export` writes. `checksum` covers `contents` as JSON without white space. */
interface ExportFile {
  readonly format: typeof FORMAT;
  readonly exportedAt: string;
  readonly exportedBy: string;
  readonly datastore: string;
  readonly counts: Counts;
  readonly checksum: string;
  readonly contents: Parts;
}

interface Parts {
  readonly cluster: unknown;
  readonly resources: readonly unknown[];
  readonly blocks: readonly unknown[];
  readonly endpoints: readonly unknown[];
}

/** Numbers of records by kind. */
export type Counts = Readonly<Record<string, number>>;

/** The decoded contents of an exported file. */
export interface Exported {
  readonly checksum: string;
  readonly counts: Counts;
  readonly cluster: ClusterInformation;
  readonly resources: readonly PlainResource[];
  readonly blocks: readonly IpBlock[];
  readonly endpoints: readonly WorkloadEndpoint[];
}

export interface ExportOrigin {
  readonly at: string;
  readonly by: string;
  readonly datastore: string;
}

/** Renders the contents of a datastore as a file, in which pre-allocated addresses are free. */
export function renderExport(
  contents: Contents & { readonly cluster: ClusterInformation },
  { at, by, datastore }: ExportOrigin,
): string {
  const parts: Parts = {
    cluster: withoutVersion(contents.cluster),
    resources: contents.resources.map(withoutVersion),
    blocks: contents.blocks.map(({ value }) => encodeBlock(withoutPreallocated(value))),
    endpoints: contents.endpoints.map(({ value }) => withoutVersion(value)),
  };
  const file: ExportFile = {
    format: FORMAT,
    exportedAt: at,
    exportedBy: by,
    datastore,
    counts: countsOf(parts),
    checksum: checksumOf(parts),
    contents: parts,
  };
  return `${JSON.stringify(file, undefined, 1)}\n`;
}

/** Decodes an exported file. @throws cli/export-unusable */
export function readExport({ name, text }: { readonly name: string; readonly text: string }): Exported {
  const raw = tryParseJson(text);
  if (!isRecord(raw) || typeof raw['format'] !== 'string') throw unusable(name, 'it is not an exported datastore');
  if (raw['format'] !== FORMAT) {
    throw unusable(name, `its format is ${JSON.stringify(raw['format'])}, this release reads "${FORMAT}"`);
  }
  const { contents, checksum } = raw;
  if (!isParts(contents)) throw unusable(name, 'a part of its contents is missing');
  if (checksum !== checksumOf(contents)) throw unusable(name, 'its checksum does not match its contents');
  const counts = countsOf(contents);
  if (!isDeepStrictEqual(raw['counts'], counts)) throw unusable(name, 'its counts do not match its contents');
  const problems: string[] = [];
  const keep = <T>(value: T | string, what: string): T[] => {
    if (typeof value !== 'string') return [value];
    problems.push(`${what}: ${value}`);
    return [];
  };
  const [cluster] = keep(decodeStoredResource(contents.cluster), 'cluster');
  const resources = contents.resources.flatMap((each, index) =>
    keep(decodeStoredResource(each), `resources[${String(index)}]`),
  );
  const blocks = contents.blocks.flatMap((each, index) => keep(readBlock(each), `blocks[${String(index)}]`));
  const endpoints = contents.endpoints.flatMap((each, index) =>
    keep(decodeEndpoint(each), `endpoints[${String(index)}]`),
  );
  const [problem] = problems;
  if (problem !== undefined) throw unusable(name, `this release cannot decode ${problem}`);
  if (cluster?.kind !== 'ClusterInformation') throw unusable(name, 'it has no ClusterInformation');
  return { checksum, counts, cluster, resources: resources.filter(isPlain), blocks, endpoints };
}

/** Formats counts such as `2 IPPools, 1 Node, 3 blocks`. */
export function describeCounts(counts: Counts): string {
  const parts = Object.entries(counts).map(([kind, count]) => `${String(count)} ${kind}${count === 1 ? '' : 's'}`);
  return parts.length === 0 ? 'nothing' : parts.join(', ');
}

/** Frees the pre-allocated addresses of a block. */
export function withoutPreallocated(block: IpBlock): IpBlock {
  const free = applyOperations(
    block,
    reclaimOperations(block, () => true),
  );
  return { ...(free ?? block), requested: new Set() };
}

function readBlock(raw: unknown): IpBlock | string {
  const read = decodeBlock(raw);
  return 'block' in read ? read.block : read.problems.join('; ');
}

function withoutVersion(resource: Pick<Resource, 'metadata'>): unknown {
  const { resourceVersion: _, ...metadata } = resource.metadata;
  return { ...resource, metadata };
}

function checksumOf(parts: Parts): string {
  return `sha256:${sha256Of(JSON.stringify(parts))}`;
}

function countsOf({ resources, blocks, endpoints }: Parts): Counts {
  const counts = new Map<string, number>();
  for (const each of resources) {
    const kind = isRecord(each) ? String(each['kind']) : '';
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  if (blocks.length > 0) counts.set('block', blocks.length);
  if (endpoints.length > 0) counts.set('endpoint', endpoints.length);
  return Object.fromEntries(counts);
}

function isParts(raw: unknown): raw is Parts & Record<string, unknown> {
  return isRecord(raw) && ['resources', 'blocks', 'endpoints'].every((key) => Array.isArray(ownValue(raw, key)));
}

function unusable(name: string, why: string): NetplugError {
  return new NetplugError('cli/export-unusable', `Cannot use file "${name}": ${why}`, {
    hint: 'Use an unmodified file of "netplugctl datastore export"',
  });
}
