import { NetplugError } from '../../base/errors.ts';
import { readCommandLine } from './command-line.ts';
import type { Env } from '../../config/environment.ts';
import type { CtlPorts, Io, Status } from './ports.ts';
import { reportError } from '../../base/report-error.ts';

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

/** Runs one command and returns its exit status; never throws. */
export async function main(ports: CtlPorts, { argv, program, env, io }: CtlRun): Promise<Status> {
  try {
    const { asked, timeoutSeconds, ...global } = readCommandLine(argv, { write: io.stdout, program });
    if (asked === undefined) return 0;
    const limitSeconds = timeoutSeconds ?? asked.command.timeoutSeconds ?? DEFAULT_SECONDS;
    const signal = limitTo(limitSeconds, ports.interrupted);
    const stopped = timeoutSeconds === undefined ? ports.interrupted : signal;
    return await asked.command.run({ ...global, ports, env, io, signal, stopped }, asked.given);
  } catch (cause) {
    return reportError(io, cause);
  }
}

/** Returns a signal that aborts with an error after the timeout, or when the tool is interrupted. */
function limitTo(seconds: number, interrupted: AbortSignal): AbortSignal {
  const limit = new AbortController();
  const end = AbortSignal.any([interrupted, AbortSignal.timeout(Math.ceil(seconds * 1000))]);
  const abort = (): void => {
    const message = interrupted.aborted ? 'The command was interrupted' : `Timed out after ${String(seconds)} s`;
    limit.abort(
      new NetplugError('cni/deadline', message, {
        hint: interrupted.aborted ? 'Repeat the command' : 'Set a longer timeout with --timeout SECONDS',
      }),
    );
  };
  if (end.aborted) abort();
  else end.addEventListener('abort', abort, { once: true });
  return limit.signal;
}
