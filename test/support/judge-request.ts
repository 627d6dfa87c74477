import { evaluateEnd, type EndVerdict } from '../../src/policy/evaluate.ts';
import { asksForRequests } from '../../src/policy/judge-request.ts';
import type { Packet } from '../../src/policy/match-packet.ts';
import type { PolicyView } from '../../src/policy/policy-view.ts';
import type { PolicyEndpoint } from '../../src/policy/resolved-policy.ts';

/**
 * Returns what policies say of a request or connection that reaches the pod; undefined when they ask nothing that its addresses and ports
 * do not tell: the kernel has decided, and a second opinion could differ only by mistake.
 */
export function judgeRequest(view: PolicyView, endpoint: PolicyEndpoint, packet: Packet): EndVerdict | undefined {
  return asksForRequests(view, endpoint) ? evaluateEnd(view, { endpoint, direction: 'ingress', packet }) : undefined;
}
