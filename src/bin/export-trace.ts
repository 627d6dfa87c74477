import { systemClock } from '../base/clock.ts';
import { reasonOf } from '../base/errors.ts';
import type { CallOutcome } from '../cni/run-plugin.ts';
import { isTraced } from '../telemetry/is-traced.ts';

const LIMIT_MS = 1000;

/** Exports a call after its answer has been written, when tracing applies to it. Takes at most a second and never throws. */
export async function exportTrace(
  { record, log }: Pick<CallOutcome, 'record' | 'log'>,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  if (!isTraced(record, env)) return;
  const onProblem = (reason: string): void => {
    log.warning('trace not exported', { reason });
  };
  const send = async (): Promise<'sent'> => {
    const { openTraceExport } = await import('../telemetry/trace-export.ts');
    const traces = openTraceExport({ timeoutMs: LIMIT_MS, onProblem });
    traces.add(record);
    await traces.close();
    return 'sent';
  };
  const limit = new AbortController();
  const timeout = systemClock.sleep(LIMIT_MS, limit.signal).then(
    () => 'timeout' as const,
    () => 'sent' as const,
  );
  const outcome = await Promise.race([send(), timeout]).catch((cause: unknown) => {
    onProblem(reasonOf(cause));
    return 'sent' as const;
  });
  limit.abort();
  if (outcome === 'sent') return;
  onProblem(`timed out after ${String(LIMIT_MS)} ms`);
  // A running DNS lookup of the receiver cannot be cancelled and would keep the runtime waiting.
  process.exit();
}
