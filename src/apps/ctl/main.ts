import { readCommandLine } from './command-line.ts';
import type { Env } from '../../config/environment.ts';
import { withNamedErrors } from './named-errors.ts';
import type { CtlPorts, Io, Status } from './ports.ts';
import { forTerminal } from './screen.ts';
import { reportError } from '../../base/report-error.ts';
import { limitTo } from './time-limit.ts';

/** A command line with its environment, input and output. */
export interface CtlRun {
  /** The arguments, without the name of the program. */
  readonly argv: readonly string[];
  /** The name the program was called by; `netplugctl` by default. */
  readonly program?: string;
  readonly env: Env;
  readonly io: Io;
}

const DEFAULT_SECONDS = 30;

/** The one way out for what commands write: texts from elsewhere never steer the terminal. */
function withoutForeignSequences(io: Io): Io {
  const { stdout, stderr } = io;
  return { ...io, stdout: (text) => stdout(forTerminal(text)), stderr: (text) => stderr(forTerminal(text)) };
}

/** Runs one command and returns its exit status; never throws. */
export async function main(ports: CtlPorts, { argv, program, env, io: given }: CtlRun): Promise<Status> {
  const io = withoutForeignSequences(given);
  try {
    const { asked, timeoutSeconds, ...global } = readCommandLine(argv, { write: io.stdout, program });
    if (asked === undefined) return 0;
    const limitSeconds = timeoutSeconds ?? asked.command.timeoutSeconds ?? DEFAULT_SECONDS;
    const signal = limitTo(limitSeconds, ports.interrupted);
    const stopped = timeoutSeconds === undefined ? ports.interrupted : signal;
    return await asked.command.run({ ...global, ports: withNamedErrors(ports), env, io, signal, stopped }, asked.given);
  } catch (cause) {
    return reportError(io, cause);
  }
}
