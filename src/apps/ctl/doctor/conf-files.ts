import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, reasonOf } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { inspectNetconf } from '../../../config/decode.ts';
import type { Netconf } from '../../../config/netconf.ts';

/** A file in the folder where runtimes look for network configurations. */
export interface ConfFile {
  readonly name: string;
  readonly path: string;
  /** Undefined when the file is unreadable; `problem` is the reason. */
  readonly text: string | undefined;
  readonly problem: string | undefined;
  /** Names of all plugins that the file names, in order. */
  readonly programs: readonly string[];
  /** Whether the file names netplug or netplug-ipam. */
  readonly isOurs: boolean;
  /** Decoded configuration of netplug; undefined when the file has none, or an invalid one. */
  readonly netconf: Netconf | undefined;
}

/** Names of files that runtimes read end with these. */
const ENDINGS = ['.conf', '.conflist', '.json'];
const OURS = ['netplug', 'netplug-ipam'];

/** Returns the files in the order of names; runtimes use the first. A missing folder counts as empty. */
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

/** Decodes as much of a configuration as possible; `lint` reports its mistakes. */
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
