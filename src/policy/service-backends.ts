import { counted } from '../base/counted.ts';
import { type EndpointOfService, type PortOfService, type Service, serviceText } from '../model/service.ts';
import { type Address, formatAddress } from '../net/address.ts';
import { cidrContains } from '../net/cidr.ts';

/** Address of a Service that the client uses: its cluster IP, or one for outside, be it of its load balancer or another. */
export type ServiceSide = 'internal' | 'external' | 'balancer';

export interface ServiceQuestion {
  readonly service: Service;
  /** Those of all its EndpointSlices, of the IP family of the client. */
  readonly endpoints: readonly EndpointOfService[];
  readonly port: PortOfService;
  readonly side: ServiceSide;
  readonly client: 'pod' | 'host' | 'outside';
  /** Address of the client. */
  readonly from: Address;
  /** The node that translates; undefined when it is not known. */
  readonly node: string | undefined;
  /** The client is on that node. */
  readonly isClientThere: boolean;
}

export interface ServiceBackend {
  readonly address: Address;
  readonly port: number;
}

/** Where connections to a Service may end, each with the same right. */
export interface ServiceBackends {
  readonly backends: readonly ServiceBackend[];
  /** The packets leave the node that translates with its own address as source. */
  readonly isMasqueraded: boolean;
  /** Set when no backend is left: what becomes of the connection, a sentence. */
  readonly refusal?: string;
  /** What decides which backends there are, a sentence each. */
  readonly notes: readonly string[];
}

/**
 * Returns where connections to a port of a Service end by the rules of kube-proxy: at the ready endpoints, or when there are
 * none, at those that serve although they end; with the traffic policy Local at those of the node that translates alone.
 */
export function serviceBackends(question: ServiceQuestion): ServiceBackends {
  const { service, endpoints, port, node } = question;
  if (isShutOut(question)) {
    const refusal = `no range of loadBalancerSourceRanges of ${serviceText(service)} has ${formatAddress(question.from)}: kube-proxy drops the packet`;
    return { backends: [], isMasqueraded: false, refusal, notes: [] };
  }
  const serving = endpoints.flatMap((endpoint) => {
    const target = endpoint.ports.find(({ name, protocol }) => name === port.name && protocol === port.protocol);
    return target === undefined ? [] : [{ ...endpoint, port: target.port }];
  });
  const localPolicy = localPolicyOf(question);
  const chosen = localPolicy === undefined ? usable(serving) : usableOnNodes(serving, node);
  const isMasqueraded = masquerades(question);
  const backends = chosen.map(({ address, port: target }) => ({ address, port: target }));
  const notes = notesOf(question, { serving, chosen, localPolicy });
  if (backends.length > 0) return { backends, isMasqueraded, notes };
  const isElsewhere = localPolicy !== undefined && usable(serving).length > 0;
  const refusal = isElsewhere
    ? `${localPolicy} is Local, and ${serviceText(service)} has no ready endpoint on node ${node ?? ''}: kube-proxy drops the packet there`
    : `${serviceText(service)} has no ready endpoint${countText(serving)}: kube-proxy rejects the connection`;
  return { backends, isMasqueraded, refusal, notes: [] };
}

/** Returns the endpoints whose addresses DNS names for a headless Service. Nothing translates the port that a client says. */
export function headlessAddresses(
  endpoints: readonly EndpointOfService[],
): Pick<ServiceBackends, 'refusal' | 'notes'> & { readonly addresses: readonly Address[] } {
  const ready = endpoints.filter(({ isReady }) => isReady);
  const refusal = { refusal: `no endpoint is ready${countText(endpoints)}: DNS names no address of the Service` };
  return {
    addresses: ready.map(({ address }) => address),
    ...(ready.length === 0 ? refusal : {}),
    notes: leftOut(endpoints, ready),
  };
}

/** Ranges are about addresses of the load balancer alone, and those of one IP family are no limit to clients of the other. */
function isShutOut({ service, side, from }: ServiceQuestion): boolean {
  if (side !== 'balancer') return false;
  const ranges = service.sourceRanges.filter(({ base }) => base.family === from.family);
  return ranges.length > 0 && !ranges.some((range) => cidrContains(range, from));
}

type Reached = EndpointOfService & { readonly port: number };

/** A client on the node uses all endpoints, whatever the policy for clients from outside is. */
function localPolicyOf({ service, side, isClientThere }: ServiceQuestion): string | undefined {
  if (side === 'internal') return service.internalTrafficPolicy === 'Local' ? 'internalTrafficPolicy' : undefined;
  return service.externalTrafficPolicy === 'Local' && !isClientThere ? 'externalTrafficPolicy' : undefined;
}

function masquerades({ service, side, client, isClientThere }: ServiceQuestion): boolean {
  if (side === 'internal') return client === 'outside';
  return service.externalTrafficPolicy === 'Cluster' || (isClientThere && client === 'host');
}

function usable<T extends EndpointOfService>(endpoints: readonly T[]): readonly T[] {
  const ready = endpoints.filter(({ isReady }) => isReady);
  if (ready.length > 0) return ready;
  return endpoints.filter(({ isServing, isTerminating }) => isServing && isTerminating);
}

/** Each node that may translate uses its own. */
function usableOnNodes(endpoints: readonly Reached[], node: string | undefined): readonly Reached[] {
  const byNode = Map.groupBy(endpoints, (each) => each.node);
  if (node !== undefined) return usable(byNode.get(node) ?? []);
  return [...byNode].flatMap(([name, own]) => (name === undefined ? [] : usable(own)));
}

function notesOf(
  { service, node }: ServiceQuestion,
  {
    serving,
    chosen,
    localPolicy,
  }: {
    readonly serving: readonly Reached[];
    readonly chosen: readonly Reached[];
    readonly localPolicy: string | undefined;
  },
): readonly string[] {
  const elsewhere = usable(serving).length - chosen.length;
  return [
    ...(localPolicy !== undefined && node !== undefined && elsewhere > 0
      ? [`${localPolicy} is Local: only endpoints on node ${node} are used, ${counted(elsewhere, 'other')} not`]
      : []),
    ...(localPolicy === undefined ? leftOut(serving, chosen) : []),
    ...(service.hasAffinity && chosen.length > 1
      ? ['sessionAffinity is ClientIP: all connections of a client go to one of the backends']
      : []),
    ...(chosen.some(({ hasHints }) => hasHints)
      ? ['endpoints have hints: which of them the zone of the client leaves out was not looked at']
      : []),
  ];
}

function leftOut(all: readonly EndpointOfService[], chosen: readonly EndpointOfService[]): readonly string[] {
  const count = all.length - chosen.length;
  return count === 0 ? [] : [`${counted(count, 'endpoint')} of the Service not ready: no connection goes there`];
}

function countText({ length }: readonly unknown[]): string {
  return length === 0 ? '' : ` (of ${String(length)})`;
}
