import { any, type Command, command, notAllowed, one } from '../command.ts';
import { GLOBAL_OPTIONS } from '../global-options.ts';
import { complete } from './complete.ts';
import { COMPLETION_SCRIPTS, type Shell, SHELLS } from './completion-scripts.ts';

const SHELL = one<Shell>('shell', `which one: ${SHELLS.join(', ')}`, { read: readShell, completes: SHELLS });
const WORDS = any('word', 'words of the command line; the last may be incomplete');

/** `all` are the commands that can be completed, these among them. */
export function completionCommands(all: () => readonly Command[]): readonly Command[] {
  return [
    command({
      path: ['completion'],
      summary: 'Prints the completion script of a shell.',
      arguments: [SHELL],
      details: `
For kubectl, which completes "kubectl netplug …" since 1.26, link the executable as
kubectl-netplug and kubectl_complete-netplug into a folder of PATH.`,
      examples: ['source <(netplugctl completion bash)', 'netplugctl completion fish | source'],
      run: async ({ io }, { args: [shell] }) => {
        io.stdout(COMPLETION_SCRIPTS[shell]);
        return Promise.resolve(0);
      },
    }),
    command({
      path: ['complete'],
      summary: 'Prints the candidates for the last word; for completion scripts.',
      arguments: [WORDS],
      examples: ['netplugctl complete -- get ippools ""'],
      run: async (context, { args: [words] }) => complete(context, { commands: all(), globals: GLOBAL_OPTIONS, words }),
    }),
  ];
}

function readShell(text: string): Shell {
  return SHELLS.find((known) => known === text) ?? notAllowed(`Allowed is ${SHELLS.join(', ')}.`);
}
