import type { CallRecord } from '../cni/call-record.ts';
import { type Env, readVariable } from '../config/environment.ts';

/** Reports whether a call becomes a trace: NETPLUG_TRACE is set, or the caller traces and samples this call. */
export function isTraced({ parent }: Pick<CallRecord, 'parent'>, env: Env): boolean {
  return readVariable(env, 'NETPLUG_TRACE') || parent?.isSampled === true;
}
