import type { Clock } from '../../base/clock.ts';
import type { NodeName } from '../../model/names.ts';
import type { NodeCondition } from '../../model/node-readiness.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { findCondition, type ObjectCondition } from '../../kube/status/conditions.ts';
import { getNode, patchNode } from './publish-node.ts';

/** Sets these conditions of the Node in one write, and no others. Sends nothing when all are set already. */
export async function reportConditions(
  { api, clock }: { readonly api: OrchApi; readonly clock: Clock },
  { node, conditions }: { readonly node: NodeName; readonly conditions: readonly NodeCondition[] },
  signal: AbortSignal,
): Promise<void> {
  const current = await getNode(api, node, signal);
  const now = apiTime(clock.now());
  const changed = conditions
    .map((each) => conditionOf(each, findCondition(current, each.type), now))
    .filter((each) => each !== undefined);
  if (changed.length === 0) return;
  await patchNode(api, { node, patch: { kind: 'strategic', body: { status: { conditions: changed } } } }, signal);
}

/** Undefined when nothing differs. The time of the transition is that of the last change of the status. */
function conditionOf(
  { type, status, reason, message }: NodeCondition,
  before: ObjectCondition | undefined,
  now: string,
): Readonly<Record<string, string>> | undefined {
  const isSame = before?.status === status;
  if (isSame && before.reason === reason && before.message === message) return undefined;
  const lastTransitionTime = isSame && before.lastTransitionTime !== '' ? before.lastTransitionTime : now;
  return { type, status, reason, message, lastHeartbeatTime: now, lastTransitionTime };
}

/** RFC 3339 in whole seconds, as the API writes times. */
function apiTime(now: number): string {
  return new Date(now).toISOString().replace(/\.\d+Z$/, 'Z');
}
