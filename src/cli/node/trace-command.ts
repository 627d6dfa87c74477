import { type Command, InvalidArgumentError, Option } from 'commander';
import { TRACE_HELP } from '../help-texts.ts';
import { type Job, type Output, OUTPUTS } from '../job.ts';

interface Flags {
  readonly last: number;
  readonly pod?: string;
  readonly slow?: true;
  readonly socket?: string;
  readonly output: Output;
}

/** Adds `trace`. */
export function addTrace(program: Command, choose: (job: Job) => void): void {
  program
    .command('trace')
    .description('Shows where the last calls of this node spent their time.')
    .option('--last <number>', 'how many calls', callCount, 10)
    .option('--pod <namespace/name>', 'only calls of this pod', podName)
    .option('--slow', 'the slowest calls instead of the newest')
    .option('--socket <path>', 'where the agent listens (default: /run/netplug/cni.sock)')
    .addOption(new Option('-o, --output <format>', 'form of the answer').choices(OUTPUTS).default('table'))
    .addHelpText('after', TRACE_HELP)
    .action(({ last, pod, slow, socket, output }: Flags) => {
      choose({ verb: 'trace', last, pod, order: slow === true ? 'slowest' : 'newest', socket, output });
    });
}

function callCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Allowed is a whole number from 1.');
}

function podName(text: string): string {
  if (/^[^/]+\/[^/]+$/.test(text)) return text;
  throw new InvalidArgumentError('Allowed is namespace and name, with a slash between.');
}
