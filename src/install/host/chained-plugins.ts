/** Calls of the plugins that follow netplug in its chains, as the runtime makes them. */
import { readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../../base/errors.ts';
import { exec } from '../../base/exec.ts';
import { ownValue } from '../../base/own-value.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { isRecord } from '../../model/read-schema.ts';
import { isProgramName } from '../program-name.ts';
import { OWN_TYPE, type PluginEntry, type RuntimeRecord } from './runtime-records.ts';

const HOST_NAMESPACE = '/proc/1/ns/mnt';
const HOST_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const LIMIT_MS = 10_000;
const LONGEST_REASON = 300;

/** Returns the other plugins of the chain, in the order of an ADD. */
export function othersOf({ plugins }: RuntimeRecord): readonly PluginEntry[] {
  return plugins.filter(({ type }) => type !== OWN_TYPE && isProgramName(type));
}

export interface PluginCall {
  readonly command: 'ADD' | 'DEL';
  readonly record: RuntimeRecord;
  /** One of its plugins. */
  readonly plugin: PluginEntry;
  /** Folder of the plugins on the host. */
  readonly binDir: string;
}

/**
 * Calls one plugin, for at most 10 s, in the mount namespace of the host, where its own programs are. Returns undefined after
 * success, else one line that begins with its type. @throws when the signal aborts
 */
export async function callPlugin(call: PluginCall, signal: AbortSignal): Promise<string | undefined> {
  const { record, command, plugin, binDir } = call;
  const { type } = plugin;
  const path = join(binDir, type);
  const [file = path, ...args] = (await isInContainer())
    ? ['nsenter', `--mount=${HOST_NAMESPACE}`, '--', path]
    : [path];
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: record.containerId,
    CNI_IFNAME: record.ifName,
    CNI_NETNS: record.netns,
    CNI_ARGS: record.cniArgs.map((pair) => pair.join('=')).join(';'),
    CNI_PATH: binDir,
    PATH: HOST_PATH,
  };
  try {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]);
    const { status, stdout, stderr } = await exec(file, args, { env, stdin: inputOf(record, plugin), signal: limit });
    return status === 0 ? undefined : `${type}: ${reasonIn(stdout, stderr)}`;
  } catch (cause) {
    signal.throwIfAborted();
    return `${type}: ${reasonOf(cause)}`;
  }
}

/** Calls DEL of the other plugins, last one first, each also after a failure. Returns why those failed that did. */
export async function endChain(record: RuntimeRecord, binDir: string, signal: AbortSignal): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const plugin of othersOf(record).toReversed()) {
    const failure = await callPlugin({ command: 'DEL', record, plugin, binDir }, signal);
    if (failure !== undefined) failures.push(failure);
  }
  return failures;
}

/** Reports whether the plugin gets what the runtime asks for by the capability: its entry must name it. */
export function isGiven({ capabilities }: PluginEntry, name: string): boolean {
  return isRecord(capabilities) && ownValue(capabilities, name) === true;
}

/** Returns the standard input of a plugin, as the CNI library of the runtimes makes it of its entry. */
function inputOf({ network, cniVersion, capabilityArgs, result }: RuntimeRecord, plugin: PluginEntry): string {
  const given = Object.entries(capabilityArgs).filter(([name]) => isGiven(plugin, name));
  const runtimeConfig = given.length === 0 ? {} : { runtimeConfig: Object.fromEntries(given) };
  return JSON.stringify({ ...plugin, name: network, cniVersion, ...runtimeConfig, prevResult: result });
}

/** On the host itself, process 1 has the same mounts; where it cannot be looked at, there is nothing to enter. */
async function isInContainer(): Promise<boolean> {
  const [own, first] = await Promise.all(
    ['/proc/self/ns/mnt', HOST_NAMESPACE].map(async (path) => readlink(path).catch(() => undefined)),
  );
  return first !== undefined && first !== own;
}

/** Returns the message of an error of CNI, else the first line that was printed. */
function reasonIn(stdout: string, stderr: string): string {
  const said = tryParseJson(stdout);
  const message = isRecord(said) ? said['msg'] : undefined;
  const [line = ''] = (typeof message === 'string' ? message : `${stderr}\n${stdout}`).trim().split('\n');
  return line.slice(0, LONGEST_REASON);
}
