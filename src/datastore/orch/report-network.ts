import type { Clock } from '../../base/clock.ts';
import { NETWORK_CONDITION } from '../../model/notes.ts';
import type { NodeName } from '../../model/names.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { findCondition, type ObjectCondition } from '../../kube/status/conditions.ts';
import type { NetworkReport } from '../node-status-store.ts';
import { getNode, patchNode } from './publish-node.ts';

const TYPE = NETWORK_CONDITION;

/** Sets the condition NetworkUnavailable and no other. Sends nothing when it is already set. */
export async function reportNetwork(
  { api, clock }: { readonly api: OrchApi; readonly clock: Clock },
  { node, report }: { readonly node: NodeName; readonly report: NetworkReport },
  signal: AbortSignal,
): Promise<void> {
  const before = findCondition(await getNode(api, node, signal), TYPE);
  const after = conditionOf(report, before, apiTime(clock.now()));
  if (after === undefined) return;
  await patchNode(api, { node, patch: { kind: 'strategic', body: { status: { conditions: [after] } } } }, signal);
}

/** Undefined when nothing differs. The time of the transition is that of the last change of the status. */
function conditionOf(
  { isUp, reason, message }: NetworkReport,
  before: ObjectCondition | undefined,
  now: string,
): Readonly<Record<string, string>> | undefined {
  const status = isUp ? 'False' : 'True';
  const isSame = before?.status === status;
  if (isSame && before.reason === reason && before.message === message) return undefined;
  const lastTransitionTime = isSame && before.lastTransitionTime !== '' ? before.lastTransitionTime : now;
  return { type: TYPE, status, reason, message, lastHeartbeatTime: now, lastTransitionTime };
}

/** RFC 3339 in whole seconds, as the API writes times. */
function apiTime(now: number): string {
  return new Date(now).toISOString().replace(/\.\d+Z$/, 'Z');
}
