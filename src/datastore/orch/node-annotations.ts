import * as v from 'valibot';
import { ownValue } from '../../base/own-value.ts';
import { type Problem, problemLine } from '../../base/problem.ts';
import { NODE_NOTES } from '../../model/notes.ts';
import { NODE_BGP_FIELDS, NODE_FIELDS, type NodeSpec } from '../../model/node.ts';
import { readEntries } from '../../model/read-schema.ts';
import { AsNumber } from '../../model/spec-types.ts';
import { given } from '../../base/given.ts';
import type { NodeFacts } from '../node-status-store.ts';

type Annotations = Readonly<Record<string, string>>;

const FACTS = NODE_NOTES satisfies Readonly<Record<keyof NodeFacts, string>>;
/** Written by users. */
const AS_NUMBER = 'netplug/ASNumber';
const CLUSTER_ID = 'netplug/RouteReflectorClusterID';

const AsNumberText = v.pipe(
  v.string(AsNumber.pipe[0].message),
  v.regex(/^\d{1,10}$/, AsNumber.pipe[0].message),
  v.transform(Number),
  AsNumber,
);

const ENTRIES = {
  [FACTS.ipv4Address]: NODE_BGP_FIELDS.ipv4Address,
  [FACTS.ipv6Address]: NODE_BGP_FIELDS.ipv6Address,
  [AS_NUMBER]: v.optional(AsNumberText),
  [CLUSTER_ID]: NODE_BGP_FIELDS.routeReflectorClusterID,
  [FACTS.ipv4VXLANTunnelAddr]: NODE_FIELDS.ipv4VXLANTunnelAddr,
  [FACTS.vxlanTunnelMACAddr]: NODE_FIELDS.vxlanTunnelMACAddr,
  [FACTS.ipv6VXLANTunnelAddr]: NODE_FIELDS.ipv6VXLANTunnelAddr,
  [FACTS.vxlanTunnelMACAddrV6]: NODE_FIELDS.vxlanTunnelMACAddrV6,
  [FACTS.ipv4IPIPTunnelAddr]: NODE_FIELDS.ipv4IPIPTunnelAddr,
  [FACTS.netplugVersion]: NODE_FIELDS.netplugVersion,
};

/** Reads the facts of a node. Nonsense is left out and named in `problems`, so that it hides nothing else. */
export function readNodeAnnotations(annotations: Annotations): {
  readonly spec: NodeSpec;
  readonly problems: readonly string[];
} {
  const problems: Problem[] = [];
  const place = { path: 'metadata.annotations', code: 'resource/invalid', problems } as const;
  const { values } = readEntries(ENTRIES, annotations, place);
  const bgp = given({
    ipv4Address: values[FACTS.ipv4Address],
    ipv6Address: values[FACTS.ipv6Address],
    asNumber: values[AS_NUMBER],
    routeReflectorClusterID: values[CLUSTER_ID],
  });
  const others = given({
    ipv4VXLANTunnelAddr: values[FACTS.ipv4VXLANTunnelAddr],
    vxlanTunnelMACAddr: values[FACTS.vxlanTunnelMACAddr],
    ipv6VXLANTunnelAddr: values[FACTS.ipv6VXLANTunnelAddr],
    vxlanTunnelMACAddrV6: values[FACTS.vxlanTunnelMACAddrV6],
    ipv4IPIPTunnelAddr: values[FACTS.ipv4IPIPTunnelAddr],
    netplugVersion: values[FACTS.netplugVersion],
  });
  return {
    spec: { ...others, ...(Object.keys(bgp).length === 0 ? {} : { bgp }) },
    problems: problems.map(problemLine),
  };
}

/** Reports whether an agent has written where the node is reached. */
export function hasFacts(annotations: Annotations): boolean {
  return Object.values(FACTS).some((key) => key !== FACTS.netplugVersion && key in annotations);
}

/** Returns the changes to the annotations after which they say these facts; null removes one. */
export function annotationChanges(facts: NodeFacts, annotations: Annotations): Readonly<Record<string, string | null>> {
  const changes: Record<string, string | null> = {};
  const wanted: Readonly<Record<string, string | undefined>> = facts;
  for (const [fact, key] of Object.entries(FACTS)) {
    const text = ownValue(wanted, fact);
    if (annotations[key] !== text) changes[key] = text ?? null;
  }
  return changes;
}
