import { reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { readVariable } from '../config/environment.ts';
import type { CallRecord } from '../cni/call-record.ts';
import { isTraced } from '../telemetry/is-traced.ts';
import type { TraceExport } from '../telemetry/trace-export.ts';

/** Exports those calls that are to be traced, behind everybody's back; what is lost becomes a warning. */
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
  // Loading it takes longer than any call may wait.
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
