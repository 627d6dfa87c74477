import { NetplugError } from '../../base/errors.ts';
import { fileChoice } from '../common-options.ts';
import type { FileChoice } from '../inputs.ts';

/** Which resources a command is about. */
export type Target =
  | { readonly by: 'name'; readonly kind: string; readonly names: readonly string[] }
  | { readonly by: 'file'; readonly files: FileChoice };

interface Words {
  readonly kind: string | undefined;
  readonly names: readonly string[];
  readonly filename: readonly string[];
  readonly recursive: boolean;
}

/** @throws cli/usage unless either a kind or files are given */
export function targetOf({ kind, names, ...files }: Words): Target {
  const hasFiles = files.filename.length > 0;
  if (kind !== undefined && hasFiles) {
    throw usage('Cannot use a kind and -f together: both say which resources are meant', 'Keep one of the two');
  }
  if (kind !== undefined) return { by: 'name', kind, names };
  if (hasFiles) return { by: 'file', files: fileChoice(files) };
  throw usage('Cannot tell which resources are meant: neither a kind nor -f is given', 'Try "netplugctl get ippools"');
}

function usage(message: string, hint: string): NetplugError {
  return new NetplugError('cli/usage', message, { hint });
}
