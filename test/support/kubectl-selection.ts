// The part of kubectl's command line that names objects.
export interface Selection {
  readonly kinds: readonly string[];
  readonly names: readonly string[];
  /** Undefined for all namespaces. */
  readonly namespace: string | undefined;
  readonly labelSelector: string | undefined;
  readonly fieldSelector: string | undefined;
}

const FLAGS: Readonly<Record<string, 'namespace' | 'labelSelector' | 'fieldSelector'>> = {
  '-n': 'namespace',
  '--namespace': 'namespace',
  '-l': 'labelSelector',
  '--selector': 'labelSelector',
  '--field-selector': 'fieldSelector',
};

/** Returns what `kind name`, `kind/name` or `kind,kind` and flags select. Throws for flags that it does not know. */
export function readSelection(args: readonly string[]): Selection {
  const words: string[] = [];
  const given: Partial<Record<'namespace' | 'labelSelector' | 'fieldSelector', string>> = {};
  let isEverywhere = false;
  for (let at = 0; at < args.length; at += 1) {
    const [flag, ...value] = args[at]!.split('=') as [string, ...string[]];
    const field = FLAGS[flag];
    if (!flag.startsWith('-')) words.push(args[at]!);
    else if (flag === '-A' || flag === '--all-namespaces') isEverywhere = true;
    else if (field === undefined) throw new Error(`flag "${flag}" names no objects`);
    else if (value.length > 0) given[field] = value.join('=');
    else given[field] = args[(at += 1)]!;
  }
  const [what = '', ...names] = words;
  const [kinds = '', named] = what.split('/');
  return {
    kinds: kinds.split(','),
    names: named === undefined ? names : [named, ...names],
    namespace: isEverywhere ? undefined : (given.namespace ?? 'default'),
    labelSelector: given.labelSelector,
    fieldSelector: given.fieldSelector,
  };
}
