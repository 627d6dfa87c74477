import { checkConflist } from '../../../install/check-conflist.ts';
import { type ConflistAccess, renderConflist } from '../../../install/render-conflist.ts';
import { readOwnConnection } from '../connection.ts';
import { readSource } from '../inputs.ts';
import type { Context } from '../ports.ts';
import type { ConflistChoice } from './install-options.ts';
import type { Report } from './install-report.ts';

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
  for (const warning of checkConflist(text, 'the network configuration that the options make')) report.warn(warning);
  return text;
}

async function ownConflist(file: string, report: Report): Promise<string> {
  const { text } = await readSource(file);
  for (const warning of checkConflist(text, `file "${file}"`)) report.warn(warning);
  return text;
}
