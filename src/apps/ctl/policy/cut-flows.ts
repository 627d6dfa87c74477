import type { ShownFlow } from '../../../model/shown-flows.ts';
import { tryParseAddress } from '../../../net/address.ts';
import { endAt, evaluateConnection } from '../../../policy/evaluate.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import { EXTENT, type Extent, extentOfEnd, judgeEnd } from '../../../policy/reach/judge-end.ts';
import { trafficText } from '../../../policy/why-command.ts';
import { endText } from './ask-flows.ts';

/** A connection that was seen and would be cut, or be left some requests. */
export interface CutFlow {
  readonly from: string;
  readonly to: string;
  /** Example: `TCP port 80`, or `TCP port 80 but for some requests`. */
  readonly traffic: string;
  /** Number of times that it was seen. */
  readonly count: number;
  readonly lastSeen: string;
}

/** Returns the flows of which policies allow less after a change than before it, the most frequent first. */
export function cutFlows(
  { before, after }: { readonly before: PolicyView; readonly after: PolicyView },
  flows: readonly ShownFlow[],
): readonly CutFlow[] {
  return flows
    .map((flow) => ({ flow, was: extentOf(before, flow), is: extentOf(after, flow) }))
    .filter(({ flow, was, is }) => flow.verdict === 'allowed' && was !== undefined && is !== undefined && is < was)
    .toSorted(({ flow: a }, { flow: b }) => b.count - a.count)
    .map(({ flow, is }) => ({
      from: endText(flow.source),
      to: endText(flow.destination),
      traffic: `${trafficText(flow)}${is === EXTENT.requests ? ' but for some requests' : ''}`,
      count: flow.count,
      lastSeen: flow.lastSeen,
    }));
}

/** Returns undefined for a flow of a pod that has gone since. */
function extentOf(view: PolicyView, { source, destination, protocol, port, icmp }: ShownFlow): Extent | undefined {
  const [from, to] = [tryParseAddress(source.address), tryParseAddress(destination.address)];
  if (from === undefined || to === undefined) return undefined;
  const ends = {
    source: { ...endAt(view, from), host: source.host },
    destination: { ...endAt(view, to), host: destination.host },
  };
  if (ends.source.pod?.shown !== source.pod || ends.destination.pod?.shown !== destination.pod) return undefined;
  const packet = { source: from, destination: to, protocol, destinationPort: port, icmp };
  const { verdict, destination: judged } = evaluateConnection(view, { ...ends, packet, endpointToHost: 'Accept' });
  if (verdict === 'deny') return EXTENT.nothing;
  return judged === undefined ? EXTENT.all : extentOfEnd(judgeEnd(view, { ...judged, packet }));
}
