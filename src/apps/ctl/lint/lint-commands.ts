import { choice, type Command, command, flagOption, maybe, one, some, value } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { explainNetconfFile } from './explain-netconf.ts';
import { lint, LINT_OUTPUTS } from './lint.ts';
import { printSchema, SCHEMAS } from './print-schema.ts';

const NETCONF_FILE = one('file', 'network configuration or list, or "-" for standard input', { completes: 'file' });
const SCHEMA_OF = one('of', `subject of the schema: ${SCHEMAS.join(', ')}`);
const SCHEMA_KIND = maybe('kind', 'kind of resource (default: all kinds)', { completes: 'kind' });

export const LINT_COMMANDS: readonly Command[] = [
  command({
    path: ['lint'],
    summary: 'Validates network configurations, resources and annotations of pods.',
    arguments: [some('file', 'files, folders, or "-" for standard input', { completes: 'file' })],
    options: {
      fix: flagOption('correct unambiguous mistakes in the files'),
      dryRun: flagOption('show the changes of --fix without writing them'),
      cluster: flagOption('also compare policies with the pods and policies of the cluster', {
        excludes: ['fix', 'dryRun'],
      }),
      severity: choice('severity', 'lowest severity to report', { choices: ['warning', 'error'] }),
      recursive: flagOption('include nested folders', { short: 'R' }),
      output: choice('format', 'output format', { short: 'o', choices: LINT_OUTPUTS }),
    },
    details: `
Network configurations and lists must be JSON; resources and objects of the orchestrator may be YAML.
In Pods, Namespaces and workloads (Deployment, CronJob and similar kinds) the command validates the
annotations of netplug. Unrelated files in a folder are ignored, unless they are named.

--fix corrects misspelt keys, the letter case of words, and quotes around numbers, true and false, and
replaces deprecated options. Comments, order and spaces stay. It makes a change only if that leaves
fewer remarks and causes no new one.

--cluster reads the datastore, and warns of policies whose selectors select nothing, of names of ports
that no selected container has, and of pods that the policies of the files leave without DNS, or without
the DNS cache of their node (node-local-dns).

The exit status is 1 if a file has an error. "-o sarif" is for CI systems that show remarks at their lines.`,
    examples: [
      'netplugctl lint /etc/cni/net.d/10-netplug.conflist',
      'netplugctl lint --dry-run manifests/',
      'netplugctl lint --cluster -o sarif policies/',
      'netplugctl lint --severity error -o sarif manifests/ > netplug.sarif',
    ],
    run: async (context, { args: [files], options: { fix, dryRun, recursive, ...rest } }) =>
      lint(context, {
        ...rest,
        files,
        folders: recursive ? 'recursive' : 'flat',
        fixes: dryRun ? 'show' : fix ? 'write' : 'leave',
      }),
  }),
  command({
    path: ['explain', 'netconf'],
    summary: 'Shows the effective network configuration, and the source of each value.',
    arguments: [NETCONF_FILE],
    options: {
      plugin: value('plugin', 'type or index (from 0) of the plugin in a list (default: the first of netplug)'),
      output: OUTPUT,
    },
    details: `
The source of a value is the file, a default, a deprecated option, the host name, the offer of the agent
of this node, or the environment. The note explains values without effect.`,
    examples: ['netplugctl explain netconf /etc/cni/net.d/10-netplug.conflist'],
    run: async (context, { args: [file], options }) => explainNetconfFile(context, { file, ...options }),
  }),
  command({
    path: ['schema'],
    summary: 'Prints a JSON Schema, for editors and CI.',
    arguments: [SCHEMA_OF, SCHEMA_KIND],
    details: `
The schema covers names, types and enumerations. Only "netplugctl lint" checks rules across fields.`,
    examples: ['netplugctl schema conflist', 'netplugctl schema resource ippool'],
    run: async ({ io }, { args: [of, kind] }) => printSchema(io, of, kind),
  }),
];
