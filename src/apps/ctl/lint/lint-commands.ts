import { choice, type Command, command, flagOption, maybe, one, some, value } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { explainNetconfFile } from './explain-netconf.ts';
import { lint, LINT_OUTPUTS } from './lint.ts';
import { printSchema, SCHEMAS } from './print-schema.ts';

const NETCONF_FILE = one('file', 'network configuration or list, or "-" for standard input', { completes: 'file' });
const SCHEMA_OF = one('of', `what the schema is of: ${SCHEMAS.join(', ')}`);
const SCHEMA_KIND = maybe('kind', 'kind of resource; all of them unless given', { completes: 'kind' });

export const LINT_COMMANDS: readonly Command[] = [
  command({
    path: ['lint'],
    summary: 'Says what is wrong in network configurations, resources and annotations of pods.',
    arguments: [some('file', 'files, folders, or "-" for standard input', { completes: 'file' })],
    options: {
      fix: flagOption('correct what has only one reading, in the files themselves'),
      dryRun: flagOption('show what --fix would change, and write nothing'),
      severity: choice('severity', 'the least severe remarks to tell', { choices: ['warning', 'error'] }),
      recursive: flagOption('also folders inside folders', { short: 'R' }),
      output: choice('format', 'output format', { short: 'o', choices: LINT_OUTPUTS }),
    },
    details: `
Network configurations and lists must be JSON, resources and objects of the orchestrator may be YAML.
Of Pods, Namespaces and what makes pods (Deployment, CronJob and their like) the annotations of netplug
are read. Of what a folder holds, files that are nothing of this are passed over; files named are not.

--fix renames keys with one slip, corrects the letter case of words, quotes around numbers, true and
false, and replaces deprecated options. Comments, order and spaces stay. A change is only made when it
leaves less to be said about the file, and nothing new.

Exit status 1 when a file has an error. "-o sarif" is for CI systems that show remarks beside the lines.`,
    examples: [
      'netplugctl lint /etc/cni/net.d/10-netplug.conflist',
      'netplugctl lint --dry-run manifests/',
      'netplugctl lint --severity error -o sarif manifests/ > netplug.sarif',
    ],
    run: async (context, { args: [files], options: { fix, dryRun, severity, recursive, output } }) =>
      lint(context, {
        files,
        folders: recursive ? 'recursive' : 'flat',
        output,
        severity,
        fixes: dryRun ? 'show' : fix ? 'write' : 'leave',
      }),
  }),
  command({
    path: ['explain', 'netconf'],
    summary: 'Shows the configuration that calls work with, and where each value comes from.',
    arguments: [NETCONF_FILE],
    options: {
      plugin: value('plugin', 'type or number (from 0) of the plugin in a list; the first of netplug unless given'),
      output: OUTPUT,
    },
    details: `
A value stands in the file, or is a default, or comes from a deprecated option, the name of the host,
what the agent of this node offers, or the environment. The note says what has no effect and why.`,
    examples: ['netplugctl explain netconf /etc/cni/net.d/10-netplug.conflist'],
    run: async (context, { args: [file], options }) => explainNetconfFile(context, { file, ...options }),
  }),
  command({
    path: ['schema'],
    summary: 'Prints a JSON Schema, for editors and CI.',
    arguments: [SCHEMA_OF, SCHEMA_KIND],
    details: `
It knows names, types and closed lists; rules that join fields are for "netplugctl lint" alone.`,
    examples: ['netplugctl schema conflist', 'netplugctl schema resource ippool'],
    run: async ({ io }, { args: [of, kind] }) => printSchema(io, of, kind),
  }),
];
