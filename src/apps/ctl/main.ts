import { NetplugError } from '../../base/errors.ts';
import { readCommandLine } from './command-line.ts';
import type { Env } from '../../config/environment.ts';
import type { CtlPorts, Io, Status } from './ports.ts';
import { reportError } from '../../base/report-error.ts';

/** Where a command line comes from and where its answers go. */
export interface CtlRun {
  /** The words after the program's name. */
  readonly argv: readonly string[];
  /** What people type to call it; `netplugctl` unless it is called by another name. */
  readonly program?: string;
  readonly env: Env;
  readonly io: Io;
}

const DEFAULT_SECONDS = 30;

/** Runs one command and gives the exit status; never throws. */
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

/** Aborted with an error that says why, when the time is over or somebody stops the tool. */
function limitTo(seconds: number, interrupted: AbortSignal): AbortSignal {
  const limit = new AbortController();
  const end = AbortSignal.any([interrupted, AbortSignal.timeout(Math.ceil(seconds * 1000))]);
  const giveUp = (): void => {
    const why = interrupted.aborted ? 'it was stopped' : `the ${String(seconds)} s for it are over`;
    limit.abort(
      new NetplugError('cni/deadline', `Cannot finish the command: ${why}`, {
        hint: 'Give it more time with --timeout SECONDS',
      }),
    );
  };
  if (end.aborted) giveUp();
  else end.addEventListener('abort', giveUp, { once: true });
  return limit.signal;
}
