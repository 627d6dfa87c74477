import { NetplugError } from '../../../base/errors.ts';
import { fileChoice } from '../common-options.ts';
import { type FileChoice, readInputs } from '../inputs.ts';
import type { Context } from '../ports.ts';
import { visibleKind, type VisibleKind, visibleKinds } from './kind-names.ts';
import { readResources } from './resource-files.ts';

/** Resources that a command is about. */
export type Target =
  | { readonly by: 'name'; readonly wanted: readonly Wanted[] }
  | { readonly by: 'file'; readonly files: FileChoice };

/** Resources of one kind, in one namespace if it says so. */
export interface Wanted {
  readonly kind: VisibleKind;
  /** None means all. */
  readonly names: readonly string[];
  readonly namespace?: string;
}

interface Words {
  readonly kind: string | undefined;
  readonly names: readonly string[];
  readonly filename: readonly string[];
  readonly recursive: boolean;
}

/** @throws cli/usage unless either kinds or files are given */
export function targetOf({ kind, names, ...files }: Words): Target {
  const hasFiles = files.filename.length > 0;
  if (kind !== undefined && hasFiles) {
    throw usage('Cannot use a kind and -f together: both say which resources are meant', 'Keep one of the two');
  }
  if (kind !== undefined) return { by: 'name', wanted: wantedByName(kind, names) };
  if (hasFiles) return { by: 'file', files: fileChoice(files) };
  throw usage('Cannot select resources: neither a kind nor -f is given', 'Try "netplugctl get ippools"');
}

/** `ippool blue green`, `ippools,nodes`, or `ippool/blue node/n1`. @throws cli/usage */
export function wantedByName(kind: string, names: readonly string[]): readonly Wanted[] {
  if (!kind.includes('/')) return visibleKinds(kind).map((each) => ({ kind: each, names }));
  const byKind = new Map<VisibleKind, string[]>();
  for (const word of [kind, ...names]) {
    const [of = '', name = '', ...more] = word.split('/');
    if (name === '' || more.length > 0) {
      throw usage(`Cannot use "${word}": allowed is KIND/NAME`, 'Write each as KIND/NAME, or the kind once');
    }
    const meant = visibleKind(of);
    byKind.set(meant, [...(byKind.get(meant) ?? []), name]);
  }
  return [...byKind].map(([each, ofKind]) => ({ kind: each, names: ofKind }));
}

/** Returns the resources that a target means, from its files where it names files. */
export async function wantedOf(
  context: Context,
  target: Target,
  namespace: string | undefined,
): Promise<readonly Wanted[]> {
  if (target.by === 'name') return target.wanted;
  const groups = new Map<string, Wanted>();
  for (const { resource } of readResources(await readInputs(context, target.files), namespace)) {
    const { kind, metadata } = resource;
    const key = `${kind}/${metadata.namespace ?? ''}`;
    const names = [...(groups.get(key)?.names ?? []), metadata.name];
    groups.set(key, { kind, names, ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }) });
  }
  return [...groups.values()];
}

function usage(message: string, hint: string): NetplugError {
  return new NetplugError('cli/usage', message, { hint });
}
