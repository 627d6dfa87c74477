import { readFile } from 'node:fs/promises';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { type Problem, problemLine, problemsError } from '../../../base/problem.ts';
import { parseJsonObject } from '../../../config/parse-json.ts';
import { readOwnConnection } from '../connection.ts';
import { readSource } from '../inputs.ts';
import { onFile } from '../../../install/on-file.ts';
import type { ConflistChoice } from './install-options.ts';
import type { Report } from './install-report.ts';
import { lintNetconf } from '../lint/lint-conflist.ts';
import type { Context } from '../ports.ts';
import { type ConflistAccess, renderConflist } from '../../../install/render-conflist.ts';

type Raw = Readonly<Record<string, unknown>>;

/**
 * Returns the text of the conflist, checked as `lint` checks it: the file of the user unchanged, or one generated for the
 * connection of the command. @throws netconf/invalid or the code that all problems share, cli/usage
 */
export async function decideConflist(
  context: Context,
  { choice, orchAccess, report }: { choice: ConflistChoice; orchAccess: ConflistAccess; report: Report },
): Promise<string> {
  if (choice.from === 'file') return ownConflist(choice.file, report);
  const { datastore, warnings } = await readOwnConnection(context);
  for (const warning of warnings) report.warn(warning);
  const rendered = renderConflist({ ...choice, datastore, orchAccess });
  const text = `${JSON.stringify(rendered, undefined, 2)}\n`;
  refuseInvalid(parseJsonObject(text), 'the network configuration that the options make', report);
  return text;
}

/**
 * Refuses to replace the configuration of another plugin.
 * @throws install/failed
 */
export async function refuseForeign(path: string): Promise<void> {
  const text = await onFile('read', path, async () => (await readFile(path, 'utf8').catch(ignoreMissing)) ?? '');
  if (text.trim() === '' || /"netplug(-ipam)?"/.test(text)) return;
  throw new NetplugError('install/failed', `Cannot replace "${path}": it is not a configuration of netplug`, {
    hint: 'Use another --conf-name, or remove the file',
    facts: { path },
  });
}

async function ownConflist(file: string, report: Report): Promise<string> {
  const { text } = await readSource(file);
  const what = `file "${file}"`;
  const raw = readList(text, what);
  if (!Object.hasOwn(raw, 'plugins')) {
    throw new NetplugError('netconf/invalid', `Cannot use ${what}: it is not a list, "plugins" is missing`, {
      hint: 'Write a list such as examples/10-netplug.conflist',
    });
  }
  refuseInvalid(raw, what, report);
  return text;
}

/** Parses the conflist. Error messages quote nothing of it: a file given by mistake may hold a secret. */
function readList(text: string, what: string): Raw {
  try {
    return parseJsonObject(text);
  } catch (cause) {
    if (!isNetplugError(cause, 'cni/input-undecodable')) throw cause;
    const { line, column } = cause.facts;
    const where = line === undefined ? '' : `, from line ${String(line)}, column ${String(column)}`;
    throw new NetplugError('cni/input-undecodable', `Cannot use ${what}: it is not a JSON object${where}`, {
      hint: 'Write a list such as examples/10-netplug.conflist',
    });
  }
}

function refuseInvalid(raw: Raw, what: string, report: Report): void {
  const problems: Problem[] = [];
  for (const { severity, problem } of lintNetconf(raw)) {
    if (severity === 'error') problems.push(problem);
    else report.warn(problemLine(problem));
  }
  if (problems.length > 0) throw problemsError(what, problems, 'netconf/invalid');
}
