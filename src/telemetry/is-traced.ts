import type { CallRecord } from '../cni/call-record.ts';

/** Whether a call becomes a trace: tracing is switched on, or the caller traces and wants this call in it. */
export function isTraced(
  { parent }: Pick<CallRecord, 'parent'>,
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  return env['NETPLUG_TRACE'] === '1' || parent?.isSampled === true;
}
