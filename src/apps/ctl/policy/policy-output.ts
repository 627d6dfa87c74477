import { choice, type Option } from '../command.ts';
import { renderYaml } from '../resources/output/render.ts';

const POLICY_OUTPUTS = ['table', 'json', 'yaml'] as const;
export type PolicyOutput = (typeof POLICY_OUTPUTS)[number];

export const POLICY_OUTPUT: Option<PolicyOutput> = choice('format', 'output format', {
  choices: POLICY_OUTPUTS,
  short: 'o',
});

/** Returns the document in the format; `toText` renders it for people. */
export function renderDocument<T extends object>(
  document: T,
  output: PolicyOutput,
  toText: (document: T) => string,
): string {
  if (output === 'json') return `${JSON.stringify(document, undefined, 2)}\n`;
  return output === 'yaml' ? renderYaml(document) : toText(document);
}
