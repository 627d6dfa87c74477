import * as v from 'valibot';
import { readJson } from './shown-call.ts';

/**
 * Fate of the first packets of a flow: `denied`; `allowed`, and tracked by the kernel; matched by a `Log` rule; or what a
 * staged policy would have done.
 */
const FLOW_VERDICT = v.picklist(['denied', 'allowed', 'logged', 'staged allow', 'staged deny', 'staged log']);
export type FlowVerdict = v.InferOutput<typeof FLOW_VERDICT>;

/** A query for flows of a node. */
const QUESTION = v.object({
  verdicts: v.array(FLOW_VERDICT),
  /** Only flows seen in the last so many seconds. */
  sinceSeconds: v.optional(v.number()),
  /** Namespace and name, with a slash between: only flows of which the pod is an end. */
  pod: v.optional(v.string()),
});
export type FlowsQuestion = v.InferOutput<typeof QUESTION>;

const FLOW_END = v.object({
  address: v.string(),
  /** Namespace and name, with a slash between, of the pod that had the address when the flow was last seen. */
  pod: v.optional(v.string()),
  /** The node, when the address is its own. */
  host: v.optional(v.string()),
});
export type ShownFlowEnd = v.InferOutput<typeof FLOW_END>;

/** The rule that decided. */
const FLOW_RULE = v.object({
  /** Example: `NetworkPolicy shop/web`; undefined when no single one decided. */
  policy: v.optional(v.string()),
  /** Example: `ingress[0]`; undefined when no rule matched. */
  place: v.optional(v.string()),
  /** The direction, seen from the pod whose policies decided. */
  direction: v.picklist(['ingress', 'egress']),
  /** Reason, as a sentence without a full stop. */
  reason: v.string(),
});
export type ShownFlowRule = v.InferOutput<typeof FLOW_RULE>;

/** A flow of the node as its agent reports it; fields of newer agents are ignored. */
const SHOWN_FLOW = v.object({
  verdict: FLOW_VERDICT,
  /** The end that opened the connection. */
  source: FLOW_END,
  /** After translation of services, as policies see it. */
  destination: FLOW_END,
  /** IANA number. */
  protocol: v.number(),
  /** The port of the destination; undefined for protocols without ports, and when the source tried many ports. */
  port: v.optional(v.number()),
  icmp: v.optional(v.object({ type: v.number(), code: v.number() })),
  /** A request that the sidecar of the destination denied; undefined for packets. */
  request: v.optional(
    v.object({
      method: v.string(),
      /** Without query, as the client wrote it. */
      path: v.string(),
      /** `NAMESPACE/NAME` of the certificate. */
      account: v.optional(v.string()),
      /** Why, when it is not the rules alone. */
      note: v.optional(v.string()),
    }),
  ),
  /** Whether the destination of an allowed flow has answered: its own policies, on another node, may deny the flow. */
  isReplied: v.optional(v.boolean()),
  /** Undefined for an allowed flow. */
  rule: v.optional(FLOW_RULE),
  firstSeen: v.string(),
  lastSeen: v.string(),
  /** Reported packets, which are at most 10 per second and rule; of an allowed flow, the connections that were seen. */
  count: v.number(),
});
export type ShownFlow = v.InferOutput<typeof SHOWN_FLOW>;

/** Packets that the kernel counted at a rule since recording began. */
const RULE_COUNT = v.object({ verdict: FLOW_VERDICT, rule: FLOW_RULE, packets: v.number() });
export type ShownRuleCount = v.InferOutput<typeof RULE_COUNT>;

const ANSWER = v.object({
  node: v.string(),
  /** When the agent began to record. */
  recordedSince: v.string(),
  /** The last one seen comes last. */
  flows: v.array(SHOWN_FLOW),
  rules: v.array(RULE_COUNT),
  /** Reports of the kernel that did not reach the agent. */
  lostReports: v.number(),
  /** Flows that were forgotten, because the record is bounded. */
  forgotten: v.number(),
});
export type ShownFlows = v.InferOutput<typeof ANSWER>;

/** Decodes a query; undefined when the text is not one. */
export function readFlowsQuestion(text: string): FlowsQuestion | undefined {
  return readJson(QUESTION, text);
}

/** Decodes an answer; undefined when the text is not one. */
export function readShownFlows(text: string): ShownFlows | undefined {
  return readJson(ANSWER, text);
}
