import { readdir, readFile, readlink, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { reasonOf } from '../../base/errors.ts';
import { exec } from '../../base/exec.ts';
import { ignoreMissing } from '../../base/missing-file.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { isRecord } from '../../model/read-schema.ts';

/** Where the library of the runtimes keeps, for each interface, the configuration and the result of its ADD. */
const RESULTS_DIR = '/var/lib/cni/results';
const OWN_TYPE = 'netplug';
const HOST_NAMESPACE = '/proc/1/ns/mnt';
const HOST_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const LIMIT_MS = 10_000;

const Cached = v.looseObject({
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

/** An interface of netplug; other plugins of its chain have their own state on the host. */
export interface ChainedInterface {
  /** The file of the runtime about it. */
  readonly record: string;
  /** Container and interface, for messages. */
  readonly subject: string;
  readonly calls: readonly PluginCall[];
}

interface PluginCall {
  readonly type: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** Returns the interfaces of netplug, with the DEL calls of the other plugins as the runtime would make them: last plugin first. */
export async function findChained(folder = RESULTS_DIR): Promise<readonly ChainedInterface[]> {
  const names = (await readdir(folder).catch(ignoreMissing)) ?? [];
  const read = await Promise.all(
    names.map(async (name) => {
      const record = join(folder, name);
      const chain = chainIn(await readFile(record, 'utf8').catch(() => ''));
      return chain === undefined ? [] : [{ record, ...chain }];
    }),
  );
  return read.flat();
}

function chainIn(text: string): Omit<ChainedInterface, 'record'> | undefined {
  const read = v.safeParse(Cached, tryParseJson(text));
  if (!read.success) return undefined;
  const { containerId, ifName, networkName, config, netns, cniArgs, capabilityArgs, result } = read.output;
  const list = tryParseJson(Buffer.from(config, 'base64').toString('utf8'));
  const plugins = isRecord(list) && Array.isArray(list['plugins']) ? list['plugins'].filter(isRecord) : [];
  if (!isRecord(list) || !plugins.some(({ type }) => type === OWN_TYPE)) return undefined;
  const env = {
    CNI_COMMAND: 'DEL',
    CNI_CONTAINERID: containerId,
    CNI_IFNAME: ifName,
    CNI_NETNS: netns,
    CNI_ARGS: (cniArgs ?? []).map((pair) => pair.join('=')).join(';'),
  };
  const given = Object.entries(isRecord(capabilityArgs) ? capabilityArgs : {});
  const calls = plugins
    .filter(({ type }) => type !== OWN_TYPE && isProgramName(type))
    .toReversed()
    .map((plugin): PluginCall => {
      const { capabilities = {} } = plugin;
      const asked = Object.entries(isRecord(capabilities) ? capabilities : {}).filter(([, isOn]) => isOn === true);
      const runtimeConfig = Object.fromEntries(asked.flatMap(([name]) => given.filter(([key]) => key === name)));
      const stdin = { ...plugin, name: networkName, cniVersion: list['cniVersion'], runtimeConfig, prevResult: result };
      return { type: String(plugin['type']), env, stdin: JSON.stringify(stdin) };
    });
  return { subject: `${containerId} ${ifName}`, calls };
}

/** A name with a slash would lead out of the folder of plugins. */
function isProgramName(type: unknown): boolean {
  return typeof type === 'string' && /^[\w.-]+$/.test(type) && !type.startsWith('.');
}

/**
 * Calls the plugins of a chain in the mount namespace of the host, where their own programs are. Every plugin is called, also
 * after a failure. Removes the record after success, as the runtime would: it would not call DEL without the conflist. Returns
 * why each failed one did.
 */
export async function endChain(
  { record, calls }: ChainedInterface,
  binDir: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { type, env, stdin } of calls) {
    const path = join(binDir, type);
    const [file = path, ...args] = (await isInContainer())
      ? ['nsenter', `--mount=${HOST_NAMESPACE}`, '--', path]
      : [path];
    const options = { env: { ...env, CNI_PATH: binDir, PATH: HOST_PATH }, stdin };
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]);
      const { status, stdout, stderr } = await exec(file, args, { ...options, signal: limit });
      if (status !== 0) failures.push(`${type}: ${firstLine(`${stdout}\n${stderr}`)}`);
    } catch (cause) {
      signal.throwIfAborted();
      failures.push(`${type}: ${reasonOf(cause)}`);
    }
  }
  if (failures.length === 0) await rm(record, { force: true });
  return failures;
}

/** On the host itself, process 1 has the same mounts; where it cannot be looked at, there is nothing to enter. */
async function isInContainer(): Promise<boolean> {
  const [own, first] = await Promise.all(
    ['/proc/self/ns/mnt', HOST_NAMESPACE].map(async (path) => readlink(path).catch(() => undefined)),
  );
  return first !== undefined && first !== own;
}

function firstLine(text: string): string {
  const said = tryParseJson(text.trim());
  const message = isRecord(said) ? said['msg'] : undefined;
  return typeof message === 'string' ? message : (text.trim().split('\n')[0] ?? '');
}
