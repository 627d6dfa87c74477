import { reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { readVariable } from '../config/environment.ts';
import type { CallRecord } from '../cni/call-record.ts';
import { isTraced } from '../telemetry/is-traced.ts';
import type { TraceExport } from '../telemetry/trace-export.ts';

/** Exports traced calls asynchronously; logs a warning when traces are lost. */
export function residentTraces(env: NodeJS.ProcessEnv, log: Log): { add(record: CallRecord): void } & AsyncDisposable {
  const onProblem = (reason: string): void => {
    log.warning('traces lost', { reason });
  };
  let opened: Promise<TraceExport> | undefined;
  const open = async (): Promise<TraceExport> => {
    opened ??= import('../telemetry/trace-export.ts').then((module) => module.openTraceExport({ onProblem }));
    return opened;
  };
  const report = (cause: unknown): void => {
    onProblem(reasonOf(cause));
  };
  // Loads the exporter early, because loading takes too long during a call.
  if (readVariable(env, 'NETPLUG_TRACE')) void open().catch(report);
  return {
    add: (record) => {
      if (isTraced(record, env)) void open().then((traces) => traces.add(record), report);
    },
    [Symbol.asyncDispose]: async () => {
      await (await opened)?.close();
    },
  };
}
