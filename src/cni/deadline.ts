import { timeLimit } from '../base/clock.ts';
import { NetplugError } from '../base/errors.ts';
import { type Env, readVariable } from '../config/environment.ts';

/** The share of the time limit that is reserved for cleanup, at most ten seconds. */
const CLEANUP_SHARE = 0.2;
const CLEANUP_CAP_MS = 10_000;

export interface Deadlines {
  /** Aborts the work at its deadline, or when the caller gives up. */
  readonly work: AbortSignal;
  /** Aborts the cleanup at the deadline of the whole call. */
  readonly cleanup: AbortSignal;
  clear(): void;
}

/** Starts the deadlines of a call, whose limit is `NETPLUG_CALL_TIMEOUT` (seconds). @throws cni/env-invalid */
export function deadlines(env: Env, command: string, interrupted: AbortSignal): Deadlines {
  const totalMs = readVariable(env, 'NETPLUG_CALL_TIMEOUT') * 1000;
  const workMs = totalMs - Math.min(CLEANUP_CAP_MS, totalMs * CLEANUP_SHARE);
  const work = new AbortController();
  const error = (message: string): NetplugError =>
    new NetplugError('cni/deadline', `${message} while serving ${command}`, {
      hint: 'Find the slow step in the log; set NETPLUG_CALL_TIMEOUT to raise the limit, in seconds',
    });
  const timedOut = (ms: number): NetplugError => error(`Timed out after ${String(Math.round(ms) / 1000)} s`);
  const abortWork = (): void => work.abort(interrupted.aborted ? error('Interrupted by the caller') : timedOut(workMs));
  const workLimit = timeLimit(Math.ceil(workMs));
  const cleanup = timeLimit(Math.ceil(totalMs), () => timedOut(totalMs));
  workLimit.signal.addEventListener('abort', abortWork);
  interrupted.addEventListener('abort', abortWork);
  // The caller may have given up while the call waited for another one.
  if (interrupted.aborted) abortWork();
  return {
    work: work.signal,
    cleanup: cleanup.signal,
    clear: () => {
      workLimit[Symbol.dispose]();
      cleanup[Symbol.dispose]();
      interrupted.removeEventListener('abort', abortWork);
    },
  };
}
