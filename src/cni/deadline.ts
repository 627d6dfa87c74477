import { timeLimit } from '../base/clock.ts';
import { NetplugError } from '../base/errors.ts';
import { type Env, readVariable } from '../config/environment.ts';

/** Part of the time that is kept back for taking back what the work began, at most ten seconds. */
const CLEANUP_SHARE = 0.2;
const CLEANUP_CAP_MS = 10_000;

export interface Deadlines {
  /** Ends the work; also when the caller gives up. */
  readonly work: AbortSignal;
  /** Ends the whole call. */
  readonly cleanup: AbortSignal;
  clear(): void;
}

/** One limit for the whole call: 60 s unless `NETPLUG_CALL_TIMEOUT` (seconds) says otherwise. @throws cni/env-invalid */
export function deadlines(env: Env, command: string, interrupted: AbortSignal): Deadlines {
  const totalMs = readVariable(env, 'NETPLUG_CALL_TIMEOUT') * 1000;
  const workMs = totalMs - Math.min(CLEANUP_CAP_MS, totalMs * CLEANUP_SHARE);
  const work = new AbortController();
  const late = (why: string): NetplugError =>
    new NetplugError('cni/deadline', `Cannot finish ${command}: ${why}`, {
      hint: 'Look for what is slow in the log; NETPLUG_CALL_TIMEOUT sets another limit, in seconds',
    });
  const seconds = `${String(totalMs / 1000)} s for the whole call are`;
  const giveUp = (): void => work.abort(late(interrupted.aborted ? 'the caller gave up' : `${seconds} nearly over`));
  const nearly = timeLimit(Math.ceil(workMs));
  const cleanup = timeLimit(Math.ceil(totalMs), () => late(`${seconds} over`));
  nearly.signal.addEventListener('abort', giveUp);
  interrupted.addEventListener('abort', giveUp);
  return {
    work: work.signal,
    cleanup: cleanup.signal,
    clear: () => {
      nearly[Symbol.dispose]();
      cleanup[Symbol.dispose]();
      interrupted.removeEventListener('abort', giveUp);
    },
  };
}
