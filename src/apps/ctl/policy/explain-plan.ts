import type { ShownFlow } from '../../../model/shown-flows.ts';
import { protocolName } from '../../../model/protocol.ts';
import type { PolicyState } from '../../../policy/policy-state.ts';
import type { NamedAddress } from '../../../policy/reach/peer-classes.ts';
import { type ChangedEnd, compareReach, type ReachChange } from '../../../policy/reach/compare-reach.ts';
import { type PeerGroup, PeerNames } from '../../../policy/reach/group-peers.ts';
import { describeTraffic, OTHER_PROTOCOLS, type Traffic } from '../../../policy/reach/traffic.ts';
import { apiServerAddresses, type DnsCache, dnsCacheAddresses } from '../../../policy/reach/vital-services.ts';
import { warnOfCuts } from '../../../policy/reach/warn-of-cuts.ts';
import { warnOfHosts } from '../../../policy/reach/warn-of-hosts.ts';
import { warnOfRequests } from '../../../policy/reach/warn-of-requests.ts';
import { type CutFlow, cutFlows } from './cut-flows.ts';
import { decidedBy, type Scene } from './explain-connection.ts';
import type { PlannedChange } from './planned-changes.ts';

/** Reason why one end changes its verdict. */
interface Reason {
  readonly direction: 'egress' | 'ingress';
  readonly before: string;
  readonly after: string;
}

/** Connections that begin or end to be possible, for the same reasons. */
export interface PlannedConnections {
  readonly from: readonly PeerGroup[];
  readonly to: readonly PeerGroup[];
  /** Example: `TCP 80, 443`. */
  readonly traffic: string;
  readonly ranges: readonly {
    readonly protocol: string;
    readonly firstPort?: number;
    readonly lastPort?: number;
    /** Which of the requests; absent for all traffic. */
    readonly requests?: Traffic['requests'];
  }[];
  readonly family?: 4 | 6;
  readonly reasons: readonly Reason[];
}

export interface PolicyPlan {
  readonly changes: readonly { readonly resource: string; readonly action: PlannedChange['action'] }[];
  readonly warnings: readonly string[];
  /** Only when flows were given. */
  readonly cutFlows?: readonly CutFlow[];
  readonly cut: readonly PlannedConnections[];
  readonly opened: readonly PlannedConnections[];
  readonly notes: readonly string[];
}

interface PlanQuestion {
  readonly before: PolicyState;
  readonly after: PolicyState;
  readonly changes: readonly PlannedChange[];
  readonly nodes: readonly NamedAddress[];
  readonly caches: readonly DnsCache[];
  readonly notes: readonly string[];
  /** Flows that were seen; undefined when there is no record of them. */
  readonly flows: readonly ShownFlow[] | undefined;
}

/** Returns what the changes cut and open between present ends. */
export function explainPlan({ before, after, changes, nodes, caches, notes, flows }: PlanQuestion): PolicyPlan {
  const pods = [...before.endpoints.values()].filter(
    ({ kind, addresses }) => kind === 'workload' && addresses.length > 0,
  );
  const named = [...nodes, ...apiServerAddresses(before), ...dnsCacheAddresses(caches)];
  const { changes: differences, whole } = compareReach({ before, after }, named);
  const compared = new Set(
    nodes.flatMap(({ hostEnd }) => [before, after].flatMap((view) => hostEnd?.(view)?.endpoint.key ?? [])),
  );
  const names = new PeerNames(pods);
  const show = ({ from, to, traffic, family, ends }: ReachChange): PlannedConnections => ({
    from: names.group(from),
    to: names.group(to),
    traffic: describeTraffic(traffic, whole),
    ranges: traffic.map(showRange),
    ...(family === undefined ? {} : { family }),
    reasons: ends.map((end) => ({
      direction: end.direction,
      before: reasonOf(before, end, 'before'),
      after: reasonOf(after, end, 'after'),
    })),
  });
  const known = new Set([...before.problems.values()].flat());
  const problems = [...after.problems.values()].flat().filter((problem) => !known.has(problem));
  return {
    changes: changes.map(({ shown, action }) => ({ resource: shown, action })),
    warnings: [
      ...warnOfCuts(before, differences, caches),
      ...warnOfHosts({ before, after }, compared),
      ...warnOfRequests({ before, after }),
      ...problems,
    ],
    ...(flows === undefined ? {} : { cutFlows: cutFlows({ before, after }, flows) }),
    cut: differences.filter(({ verdict }) => verdict === 'deny').map(show),
    opened: differences.filter(({ verdict }) => verdict === 'allow').map(show),
    notes,
  };
}

function reasonOf(view: PolicyState, end: ChangedEnd, side: 'before' | 'after'): string {
  const { judged, packet } = end[side];
  // They may be several profiles: ends of all namespaces are shown together.
  if (judged.decision.kind === 'profile rule') return `no policy decides, and profiles ${judged.verdict} it`;
  const scene: Scene = { view, packet, direction: end.direction };
  return decidedBy(scene, judged).reason;
}

function showRange({ protocol, first, last, requests }: Traffic): PlannedConnections['ranges'][number] {
  if (protocol === OTHER_PROTOCOLS) return { protocol: 'other' };
  const name = protocolName(protocol);
  const some = requests === undefined ? {} : { requests };
  return first === 0 ? { protocol: name } : { protocol: name, firstPort: first, lastPort: last, ...some };
}
