import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NetplugError } from '../base/errors.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import { onFile } from './on-file.ts';

/** Refuses to replace the configuration of another plugin. @throws install/failed */
export async function refuseForeign(path: string): Promise<void> {
  const text = await onFile('read', path, async () => (await readFile(path, 'utf8').catch(ignoreMissing)) ?? '');
  if (text.trim() === '' || /"netplug(-ipam)?"/.test(text)) return;
  throw new NetplugError('install/failed', `Cannot replace "${path}": it is not a configuration of netplug`, {
    hint: 'Use another name for the conflist, or remove the file',
    facts: { path },
  });
}

/** Returns a warning when another configuration of the folder sorts first, because runtimes use that one. */
export async function warningOfOthers(confDir: string, confName: string): Promise<string | undefined> {
  const names = (await onFile('read', confDir, async () => readdir(confDir).catch(ignoreMissing))) ?? [];
  const [first] = names.filter((name) => /\.(conf|conflist|json)$/.test(name)).sort();
  if (first === undefined || first >= confName) return undefined;
  return `"${join(confDir, first)}" sorts before "${confName}": a runtime that reads one configuration reads that one; remove the file, or give the conflist of netplug a name before it`;
}
