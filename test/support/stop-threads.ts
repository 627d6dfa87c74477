import { readdirSync, readFileSync } from 'node:fs';
import { until } from './until.ts';

/** Sends SIGSTOP and waits until every thread stands: threads that are running go on until the kernel reaches them. */
export async function stopThreads(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await until(
    () => threadStates(pid).every((state) => state === 'T'),
    `all threads of ${String(pid)} stand`,
    60_000,
    1,
  );
}

/** States as in proc_pid_stat(5), one of each thread. */
function threadStates(pid: number): readonly string[] {
  const folder = `/proc/${String(pid)}/task`;
  try {
    return readdirSync(folder).map(
      (thread) => /\) (.)/.exec(readFileSync(`${folder}/${thread}/stat`, 'utf8'))?.[1] ?? '',
    );
  } catch {
    return ['ended meanwhile'];
  }
}
