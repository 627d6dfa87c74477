/** What the CNI library of the runtimes records of an interface: how it called the chain of plugins, and the result. */
import { constants } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { ignoreMissing } from '../../base/missing-file.ts';
import { slicesOf } from '../../base/slices.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { Attachment } from '../../model/names.ts';
import { isRecord } from '../../model/read-schema.ts';

/** Folder of the library, which has a file for each interface from the end of its ADD to that of its DEL. */
export const RESULTS_DIR = '/var/lib/cni/results';
export const OWN_TYPE = 'netplug';
/** Far more than the library writes for a pod with a thousand host ports. */
const LARGEST_BYTES = 1 << 20;
const READ_AT_ONCE = 64;
const POD_PART = /^[a-z0-9][a-z0-9.-]*$/;

const File = v.looseObject({
  kind: v.literal('cniCacheV1'),
  containerId: v.string(),
  ifName: v.string(),
  networkName: v.string(),
  /** A configuration list, in base64. */
  config: v.string(),
  netns: v.optional(v.string(), ''),
  cniArgs: v.nullish(v.array(v.tuple([v.string(), v.string()])), []),
  capabilityArgs: v.optional(v.unknown()),
  result: v.optional(v.unknown()),
});

/** What a runtime has recorded of an interface of netplug. */
export interface RuntimeRecord extends Attachment {
  readonly path: string;
  /** Path of the network namespace; empty when an older library has made the record, such as that of podman 4.3 or containerd 1.7. */
  readonly netns: string;
  readonly cniArgs: readonly (readonly [name: string, value: string])[];
  readonly cniVersion: unknown;
  /** Entries of the configuration list, first plugin first. */
  readonly plugins: readonly PluginEntry[];
  readonly capabilityArgs: Readonly<Record<string, unknown>>;
  /** The result of the last plugin. */
  readonly result: unknown;
}

export type PluginEntry = Readonly<Record<string, unknown>> & { readonly type: string };

/**
 * Returns the records of interfaces in networks whose list contains netplug, ordered by file name. Files whose name does not pass
 * `isWanted` are not read: it ends with `-<containerId>-<ifName>`.
 */
export async function listRuntimeRecords(
  folder: string,
  isWanted: (fileName: string) => boolean = () => true,
): Promise<readonly RuntimeRecord[]> {
  const names = ((await readdir(folder).catch(ignoreMissing)) ?? []).filter(isWanted).sort();
  const records: RuntimeRecord[] = [];
  for (const slice of slicesOf(names, READ_AT_ONCE)) {
    const read = await Promise.all(slice.map(async (name) => readRecord(folder, name)));
    records.push(...read.filter((record) => record !== undefined));
  }
  return records;
}

/** Returns the record of the interface; undefined when there is none, or none of a network whose list contains netplug. */
export async function findRuntimeRecord(folder: string, attachment: Attachment): Promise<RuntimeRecord | undefined> {
  return readRecord(folder, nameOf(attachment));
}

/** Returns the pod as `namespace/name`; undefined when the runtime named none. */
export function podOf({ cniArgs }: RuntimeRecord): string | undefined {
  const args = new Map(cniArgs);
  const names = ['K8S_POD_NAMESPACE', 'K8S_POD_NAME'].map((key) => args.get(key) ?? '');
  return names.every((name) => POD_PART.test(name)) ? names.join('/') : undefined;
}

function nameOf({ network, containerId, ifName }: Attachment): string {
  return `${network}-${containerId}-${ifName}`;
}

/** Undefined also for a file that cannot be read, or that is the record of another interface than its name says. */
async function readRecord(folder: string, name: string): Promise<RuntimeRecord | undefined> {
  // The library accepts no network of such a name.
  if (name.includes('/')) return undefined;
  const path = join(folder, name);
  const record = decodeRecord(await readText(path).catch(() => ''));
  return record !== undefined && nameOf(record) === name ? { path, ...record } : undefined;
}

async function readText(path: string): Promise<string> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const stat = await file.stat();
  return stat.isFile() && stat.size <= LARGEST_BYTES ? await file.readFile('utf8') : '';
}

function decodeRecord(text: string): Omit<RuntimeRecord, 'path'> | undefined {
  const read = v.safeParse(File, tryParseJson(text));
  if (!read.success) return undefined;
  const {
    containerId,
    ifName,
    networkName: network,
    config,
    netns,
    cniArgs,
    capabilityArgs: asked,
    result,
  } = read.output;
  const list = tryParseJson(Buffer.from(config, 'base64').toString('utf8'));
  const plugins = isRecord(list) && Array.isArray(list['plugins']) ? list['plugins'].filter(isPlugin) : [];
  if (!isRecord(list) || !plugins.some(({ type }) => type === OWN_TYPE)) return undefined;
  const { cniVersion } = list;
  const capabilityArgs = isRecord(asked) ? asked : {};
  return { network, containerId, ifName, netns, cniArgs: cniArgs ?? [], cniVersion, plugins, capabilityArgs, result };
}

function isPlugin(entry: unknown): entry is PluginEntry {
  return isRecord(entry) && typeof entry['type'] === 'string';
}
