import type { Mode } from '../../../base/mode.ts';
import { parseSelector } from '../../../model/selector-parser.ts';
import { any, flagOption, maybe, notAllowed, one, value } from '../command.ts';

/** Arguments and options that commands on resources share. */
export const KIND = one('kind', 'kind of resource, such as ippool', { completes: 'kind' });
export const MAYBE_KIND = maybe('kind', 'kind of resource, such as ippool; several as ippools,nodes; or all', {
  completes: 'kind',
});
export const NAMES = any('name', 'names of resources, or KIND/NAME instead of kind and names', { completes: 'name' });

export const NAMESPACE = {
  namespace: value('namespace', 'namespace of the resources; "default" when names are given', { short: 'n' }),
};
export const SELECTOR = {
  selector: value('selector', `only resources with these labels, such as "rack == 'r1' && !has(old)"`, {
    short: 'l',
    read: readSelector,
  }),
};
export const DRY_RUN = { dryRun: flagOption('run every check and print what would be done, and change nothing') };

export function modeOption({ dryRun }: { readonly dryRun: boolean }): Mode {
  return dryRun ? 'dry-run' : 'apply';
}

function readSelector(text: string): string {
  const parsed = parseSelector(text);
  if ('selector' in parsed) return text;
  return notAllowed(
    `Allowed is a selector such as "rack == 'r1'"; ${parsed.error} at character ${String(parsed.at + 1)}.`,
  );
}
