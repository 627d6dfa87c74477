import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NetplugError } from '../base/errors.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import { tryParseJson } from '../base/try-parse-json.ts';
import { isNetplugEntry } from '../config/lint-conflist.ts';
import { isRecord } from '../model/read-schema.ts';
import { shadowedBy } from './conflist-faults.ts';
import type { NodeProblem } from '../model/node-report.ts';
import { onFile } from './on-file.ts';
import { isProgramName } from './program-name.ts';

const OWN = /"netplug(-ipam)?"/;

export interface ConflistFolder {
  readonly confDir: string;
  readonly confName: string;
  /** The folder of plugins. */
  readonly binDir: string;
}

/** Refuses to replace the configuration of another plugin. @throws install/failed */
export async function refuseForeign(path: string): Promise<void> {
  const text = await onFile('read', path, async () => (await readFile(path, 'utf8').catch(ignoreMissing)) ?? '');
  if (text.trim() === '' || OWN.test(text)) return;
  throw new NetplugError('install/failed', `Cannot replace "${path}": it is not a configuration of netplug`, {
    hint: 'Use another name for the conflist, or remove the file',
    facts: { path },
  });
}

/**
 * Returns the fault of another configuration that sorts first, because runtimes use that one. A plugin that calls those of the
 * conflist in turn is none, as long as its program is there.
 */
export async function findShadow({ confDir, confName, binDir }: ConflistFolder): Promise<NodeProblem | undefined> {
  const names = (await onFile('read', confDir, async () => readdir(confDir).catch(ignoreMissing))) ?? [];
  const [first] = names.filter((name) => /\.(conf|conflist|json)$/.test(name)).sort();
  if (first === undefined || first >= confName) return undefined;
  const path = join(confDir, first);
  const text = await readFile(path, 'utf8').catch(() => '');
  return (await callsOn(text, { confName, binDir })) ? undefined : shadowedBy(path, confName);
}

async function callsOn(text: string, { confName, binDir }: Omit<ConflistFolder, 'confDir'>): Promise<boolean> {
  const configuration = tryParseJson(text);
  if (!isRecord(configuration) || (!OWN.test(text) && !text.includes(`/${confName}"`))) return false;
  const { plugins = [configuration] } = configuration;
  const entries = Array.isArray(plugins) ? plugins.filter(isRecord) : [];
  // A conflist of netplug with another name.
  if (entries.some(isNetplugEntry)) return false;
  const types = entries.map(({ type }) => type);
  const areThere = types.map(async (type) => isProgramName(type) && (await isThere(join(binDir, type))));
  return types.length > 0 && !(await Promise.all(areThere)).includes(false);
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
