import type { ShownFlow } from '../../../model/shown-flows.ts';
import { tryParseAddress } from '../../../net/address.ts';
import { endAt, evaluateConnection, type PolicyVerdict } from '../../../policy/evaluate.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import { trafficText } from '../../../policy/why-command.ts';
import { endText } from './ask-flows.ts';

/** A connection that was seen and would be cut. */
export interface CutFlow {
  readonly from: string;
  readonly to: string;
  /** Example: `TCP port 80`. */
  readonly traffic: string;
  /** Number of times that it was seen. */
  readonly count: number;
  readonly lastSeen: string;
}

/** Returns the flows that policies allow before a change and deny after it, the most frequent first. */
export function cutFlows(
  { before, after }: { readonly before: PolicyView; readonly after: PolicyView },
  flows: readonly ShownFlow[],
): readonly CutFlow[] {
  return flows
    .filter(
      (flow) => flow.verdict === 'allowed' && verdictOf(before, flow) === 'allow' && verdictOf(after, flow) === 'deny',
    )
    .toSorted((a, b) => b.count - a.count)
    .map((flow) => ({
      from: endText(flow.source),
      to: endText(flow.destination),
      traffic: trafficText(flow),
      count: flow.count,
      lastSeen: flow.lastSeen,
    }));
}

/** Returns undefined for a flow of a pod that has gone since. */
function verdictOf(
  view: PolicyView,
  { source, destination, protocol, port, icmp }: ShownFlow,
): PolicyVerdict | undefined {
  const [from, to] = [tryParseAddress(source.address), tryParseAddress(destination.address)];
  if (from === undefined || to === undefined) return undefined;
  const ends = {
    source: { ...endAt(view, from), host: source.host },
    destination: { ...endAt(view, to), host: destination.host },
  };
  if (ends.source.pod?.shown !== source.pod || ends.destination.pod?.shown !== destination.pod) return undefined;
  const packet = { source: from, destination: to, protocol, destinationPort: port, icmp };
  return evaluateConnection(view, { ...ends, packet, endpointToHost: 'Accept' }).verdict;
}
