import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, reasonOf } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { inspectNetconf } from '../../../config/decode.ts';
import type { Netconf } from '../../../config/netconf.ts';

/** A file in the folder from which runtimes take the network. */
export interface ConfFile {
  readonly name: string;
  readonly path: string;
  /** Undefined when it cannot be read; `problem` says why. */
  readonly text: string | undefined;
  readonly problem: string | undefined;
  /** Names of all programs it needs, in order. */
  readonly programs: readonly string[];
  /** Whether netplug has a part in it. */
  readonly isOurs: boolean;
  /** Decoded, when netplug has a part in it and can read that. */
  readonly netconf: Netconf | undefined;
}

/** What runtimes take for configurations. */
const ENDINGS = ['.conf', '.conflist', '.json'];
const OURS = ['netplug', 'netplug-ipam'];

/** In the order in which runtimes look at them, who use the first; a folder that is missing is empty. */
export async function readConfFiles(folder: string): Promise<readonly ConfFile[]> {
  const names = (await readdir(folder).catch(ignoreMissing)) ?? [];
  const found = names.filter((name) => ENDINGS.some((ending) => name.endsWith(ending))).sort();
  return Promise.all(found.map(async (name) => readConfFile(folder, name)));
}

async function readConfFile(folder: string, name: string): Promise<ConfFile> {
  const path = join(folder, name);
  try {
    const text = await readFile(path, 'utf8');
    return { name, path, text, problem: undefined, ...understand(text) };
  } catch (cause) {
    if (errnoOf(cause) === undefined) throw cause;
    return { name, path, text: undefined, problem: reasonOf(cause), programs: [], isOurs: false, netconf: undefined };
  }
}

/** What is wrong with it, `lint` says. */
export function understand(text: string): Pick<ConfFile, 'programs' | 'isOurs' | 'netconf'> {
  const document = tryParseJson(text);
  const list = isRecord(document) ? document : {};
  const entries = (Array.isArray(list['plugins']) ? list['plugins'] : [list]).filter(isRecord);
  const programs = entries.flatMap(({ type, ipam }) => [type, isRecord(ipam) ? ipam['type'] : undefined]);
  const named = [...new Set(programs.filter((each) => typeof each === 'string' && each !== ''))] as string[]; // filtered
  const own = entries.find(
    ({ type, ipam }) => type === 'netplug' || (isRecord(ipam) && ipam['type'] === 'netplug-ipam'),
  );
  const { name, cniVersion } = list;
  const inherited = { ...(name === undefined ? {} : { name }), ...(cniVersion === undefined ? {} : { cniVersion }) };
  const as = own?.['type'] === 'netplug' ? 'network' : 'ipam';
  return {
    programs: named,
    isOurs: named.some((each) => OURS.includes(each)) || (document === undefined && /"netplug(-ipam)?"/.test(text)),
    netconf: own === undefined ? undefined : inspectNetconf({ ...own, ...inherited }, as).netconf,
  };
}
