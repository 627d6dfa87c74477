import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ignoreMissing } from '../base/missing-file.ts';
import { tryParseJson } from '../base/try-parse-json.ts';
import { isJsonObject } from './result.ts';

/** An installed network of netplug whose addresses another plugin manages. */
export interface DelegatedNetwork {
  readonly name: string;
  /** The type of the address manager. */
  readonly manager: string;
  /** The entry of netplug in the configuration list, with name and version of the list, as a runtime passes it. */
  readonly conf: Readonly<Record<string, unknown>>;
}

/**
 * Returns the networks in the configuration folder of the runtime whose main plugin is netplug with a delegated address manager. Of
 * several files with one network the first counts, as for runtimes.
 */
export async function readDelegatedNetworks(confDir: string): Promise<readonly DelegatedNetwork[]> {
  const names = ((await readdir(confDir).catch(ignoreMissing)) ?? []).filter((name) =>
    /\.(conf|conflist|json)$/.test(name),
  );
  const found = new Map<string, DelegatedNetwork | undefined>();
  for (const file of names.sort()) {
    const list = tryParseJson(await readFile(join(confDir, file), 'utf8').catch(() => ''));
    if (!isJsonObject(list) || typeof list['name'] !== 'string' || found.has(list['name'])) continue;
    found.set(list['name'], delegatedNetwork(list['name'], list));
  }
  return [...found.values()].filter((network) => network !== undefined);
}

function delegatedNetwork(name: string, list: Readonly<Record<string, unknown>>): DelegatedNetwork | undefined {
  const { cniVersion, plugins = [list] } = list;
  const entry = Array.isArray(plugins)
    ? plugins.filter(isJsonObject).find(({ type }) => type === 'netplug')
    : undefined;
  const ipam = entry?.['ipam'];
  const manager = isJsonObject(ipam) ? ipam['type'] : undefined;
  if (typeof manager !== 'string' || manager === 'netplug-ipam') return undefined;
  return { name, manager, conf: { ...entry, name, cniVersion } };
}
