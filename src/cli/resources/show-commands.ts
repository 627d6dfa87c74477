import { type Command, command, flag, unless, value } from '../command.ts';
import { FILES } from '../common-options.ts';
import { get } from './get.ts';
import { GET_OUTPUTS, readGetOutput, readSortPath } from './output/get-output.ts';
import { MAYBE_KIND, NAMES, NAMESPACE, SELECTOR } from './resource-options.ts';
import { targetOf } from './target.ts';

const LOOK = {
  output: value('format', `form of the answer: ${GET_OUTPUTS.join(', ')}`, { short: 'o', read: readGetOutput }),
  headers: unless('no titles above the columns'),
  showLabels: flag('a column with all labels'),
};

export const SHOW_COMMANDS: readonly Command[] = [
  command({
    path: ['get'],
    summary: 'Shows resources.',
    arguments: [MAYBE_KIND, NAMES],
    options: {
      ...FILES,
      ...LOOK,
      sortBy: value('path', 'order by what a path such as .spec.cidr leads to', { read: readSortPath }),
      ...NAMESPACE,
      allNamespaces: flag('of all namespaces, as without --namespace', { short: 'A', excludes: ['namespace'] }),
      ...SELECTOR,
    },
    details: `
Without names, all resources of the kind are shown, those of every namespace. What yaml and json show
can be applied again. JSONPath is that of kubectl; custom columns take paths or titles of the table.`,
    examples: [
      'netplugctl get ippools',
      'netplugctl get pool blue -o yaml',
      'netplugctl get workloadendpoints -n shop -o wide',
      `netplugctl get ippools -o jsonpath='{range .items[*]}{.metadata.name}{"\\t"}{.spec.cidr}{"\\n"}{end}'`,
      'netplugctl get ippools -o custom-columns=NAME,NET:.spec.cidr --sort-by .spec.blockSize',
    ],
    run: async (context, { args: [kind, names], options }) =>
      get(context, {
        ...options,
        target: targetOf({ kind, names, ...options }),
        output: options.output ?? { form: 'table' },
        selector: options.selector ?? 'all()',
        titles: options.headers ? 'with titles' : 'without titles',
        labels: options.showLabels ? 'with labels' : 'without labels',
      }),
  }),
];
