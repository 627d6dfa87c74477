import { type Command, command, some } from '../command.ts';
import { OUTPUT } from '../common-options.ts';
import { lint } from './lint.ts';

export const LINT_COMMANDS: readonly Command[] = [
  command({
    path: ['lint'],
    summary: 'Says what is wrong in network configurations and resource files.',
    arguments: [some('file', 'files, folders, or "-" for standard input', { completes: 'file' })],
    options: { output: OUTPUT },
    details: `
Network configurations and lists must be JSON, resources may be YAML. Exit status 1 when a file has
an error.`,
    examples: ['netplugctl lint /etc/cni/net.d/10-netplug.conflist'],
    run: async (context, { args: [files], options: { output } }) => lint(context, { files, output }),
  }),
];
