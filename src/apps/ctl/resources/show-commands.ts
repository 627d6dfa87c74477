import { type Command, command, flagOption, one, type OptionValues, unless, value } from '../command.ts';
import { FILES } from '../common-options.ts';
import { explain } from './explain/explain.ts';
import { getResources, type GetOptions } from './get.ts';
import { GET_OUTPUTS, readGetOutput, readSortPath } from './output/get-output.ts';
import { KIND, MAYBE_KIND, NAMES, NAMESPACE, SELECTOR } from './resource-options.ts';
import { targetOf, wantedByName } from './target.ts';
import { watch } from './watch-resources.ts';

const LOOK = {
  output: value('format', `output format: ${GET_OUTPUTS.join(', ')}`, {
    short: 'o',
    read: readGetOutput,
    completes: GET_OUTPUTS.map((each) => each.replace(/=.*/, '=')),
  }),
  headers: unless('omit the titles of the columns'),
  showLabels: flagOption('add a column with all labels'),
};

const WHICH = {
  ...NAMESPACE,
  allNamespaces: flagOption('resources of all namespaces, which is the default', {
    short: 'A',
    excludes: ['namespace'],
  }),
  ...SELECTOR,
};

const WHAT = one('what', 'a kind, or a field as in ippool.spec.cidr', { completes: 'kind' });

export const SHOW_COMMANDS: readonly Command[] = [
  command({
    path: ['get'],
    summary: 'Shows resources.',
    arguments: [MAYBE_KIND, NAMES],
    options: {
      ...FILES,
      ...LOOK,
      sortBy: value('path', 'sort by the value at a path such as .spec.cidr', { read: readSortPath }),
      ...WHICH,
      watch: flagOption('watch for changes, like the command watch', { short: 'w', excludes: ['sortBy'] }),
    },
    details: `
Without names, shows all resources of the kind in all namespaces. The output of yaml and json can be
applied again. JSONPath works as in kubectl; custom columns take paths or titles of the table.`,
    examples: [
      'netplugctl get ippools',
      'netplugctl get pool blue -o yaml',
      'netplugctl get workloadendpoints -n shop -o wide',
      `netplugctl get ippools -o jsonpath='{range .items[*]}{.metadata.name}{"\\t"}{.spec.cidr}{"\\n"}{end}'`,
      'netplugctl get ippools -o custom-columns=NAME,NET:.spec.cidr --sort-by .spec.blockSize',
    ],
    run: async (context, { args: [kind, names], options }) =>
      (options.watch ? watch : getResources)(context, {
        ...lookOf(options),
        target: targetOf({ kind, names, ...options }),
        sortBy: options.sortBy,
      }),
  }),
  command({
    path: ['watch'],
    summary: 'Shows resources of one kind and every change until interrupted.',
    arguments: [KIND, NAMES],
    options: { ...LOOK, ...WHICH },
    details: `
Each line shows whether the resource was ADDED, MODIFIED or DELETED; existing resources are ADDED
first. With -o json, each line is an object with type and object. When the watch is lost, the command
prints a warning and restarts it without repeating changes.`,
    examples: ['netplugctl watch ippools', 'netplugctl watch nodes -o json'],
    run: async (context, { args: [kind, names], options }) =>
      watch(context, {
        ...lookOf(options),
        target: { by: 'name', wanted: wantedByName(kind, names) },
        sortBy: undefined,
      }),
  }),
  command({
    path: ['explain'],
    summary: 'Describes a kind of resource or a field.',
    arguments: [WHAT],
    options: { recursive: flagOption('include nested fields') },
    examples: ['netplugctl explain ippool', 'netplugctl explain bgpconfiguration.spec.communities'],
    run: async (context, { args: [what], options: { recursive } }) =>
      explain(context, { what, depth: recursive ? 'all levels' : 'one level' }),
  }),
];

function lookOf(options: OptionValues<typeof LOOK & typeof WHICH>): Omit<GetOptions, 'target' | 'sortBy'> {
  const { output = { form: 'table' }, selector = 'all()', ...look } = options;
  return { ...look, output, selector };
}
