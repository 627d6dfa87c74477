import { NetplugError } from '../../../base/errors.ts';
import { isObjectName } from '../../../kube/paths.ts';
import { protocolName, protocolNumber } from '../../../model/protocol.ts';
import { type EndpointOfService, type PortOfService, type Service, serviceText } from '../../../model/service.ts';
import { type Address, formatAddress, sameAddress } from '../../../net/address.ts';
import type { ConnectionEnd } from '../../../policy/evaluate.ts';
import type { DnsCache } from '../../../policy/reach/vital-services.ts';
import { headlessAddresses, serviceBackends, type ServiceSide } from '../../../policy/service-backends.ts';
import { findEnd, type NamedDestination, type NamedEnd, type Targets } from './connection-ends.ts';
import type { AskedProtocol } from './explain-connection.ts';
import type { AddressPlan } from './packet-way.ts';
import type { ServiceReader } from './read-services.ts';

/** Prefix of the name of an end that is a Service. */
export const SERVICE = 'svc/';

export interface AskedDestination {
  readonly text: string;
  readonly from: NamedEnd;
  readonly protocol: AskedProtocol;
  readonly port: number | undefined;
}

/** A destination, and the port by which it is addressed: that of the option, or the only one of a Service. */
export interface FoundDestination {
  readonly to: NamedDestination;
  readonly port: number | undefined;
}

/** Finds the Service that the text names. @throws resource/not-found, cli/usage for what it does not serve, store/* */
export async function findService(
  plan: AddressPlan,
  asked: AskedDestination,
  services: ServiceReader,
): Promise<FoundDestination> {
  const which = serviceNamed(asked);
  const service = await services.find(which);
  if (service === undefined)
    throw new NetplugError(
      'resource/not-found',
      `Cannot find ${serviceText(which)}: the cluster has none of that name`,
      {
        hint: `Run "kubectl get services -n ${which.namespace}"; for a pod of the namespace "svc", write its address`,
      },
    );
  const { externalName } = service;
  if (externalName !== undefined)
    throw new NetplugError(
      'cli/usage',
      `Cannot follow ${serviceText(service)}: it stands for the name "${externalName}" (ExternalName), and policies see only the addresses of that`,
      { hint: `Look up ${externalName}, and ask for one of its addresses` },
    );
  const endpoints = await services.endpointsOf(service);
  if (service.isHeadless) return headlessDestination(plan, asked, { service, endpoints });
  const addresses = service.clusterIps.map((address) => ({ address, side: 'internal' as const, node: undefined }));
  return destinationOf(plan, asked, { service, endpoints, addresses, port: portOf(service, asked) });
}

/** Finds the Service that has the address of an end, which stays as it is when none has it. @throws cli/usage, store/* */
export async function findServiceAt(
  plan: AddressPlan,
  asked: AskedDestination,
  { end, services }: { readonly end: NamedDestination; readonly services: ServiceReader },
): Promise<FoundDestination> {
  const all = await services.list();
  for (const { address } of end.addresses) {
    for (const service of all) {
      const found = servedAt(service, asked, { address, node: end.node });
      if (found === undefined) continue;
      const endpoints = await services.endpointsOf(service);
      const addresses = [{ address, side: found.side, node: end.node }];
      return destinationOf(plan, asked, { service, endpoints, addresses, port: found.port });
    }
  }
  const notes = end.kind === 'address' ? [`no pod, no node and no Service has the address ${end.name}`] : end.notes;
  return { to: { ...end, notes }, port: asked.port };
}

/** Returns the destination as it is where the DNS cache of the node of the source has its address: packets end there, and are not translated. */
export function behindCaches(
  { to, port }: FoundDestination,
  { source, caches }: { readonly source: NamedEnd; readonly caches: readonly DnsCache[] },
): FoundDestination {
  const { node } = source;
  const own = caches.filter((each) => each.node === node);
  const cached = to.addresses.filter((end) => own.some(({ address }) => sameAddress(address, end.address)));
  if (node === undefined || cached.length === 0) return { to, port };
  const taken = cached.filter((end) => own.some((each) => each.isReady && sameAddress(each.address, end.address)));
  if (taken.length === 0) {
    const why = `the DNS cache of node ${node} has the address, and is not ready: whether packets end there is not known`;
    return { to: { ...to, notes: [...to.notes, why] }, port };
  }
  const addresses = taken.map(({ address }) => ({ address, host: node }));
  const texts = addresses.map(({ address }) => formatAddress(address)).join(' and ');
  const notes = [`the DNS cache of node ${node} answers at ${texts}: packets end at the node`];
  return { to: { kind: 'address', name: to.name, addresses, notes }, port };
}

/** An address from outside may be that of a machine, whose other ports are no Service's. */
function servedAt(
  service: Service,
  asked: AskedDestination,
  { address, node }: { readonly address: Address; readonly node: string | undefined },
): { readonly side: ServiceSide; readonly port: PortOfService } | undefined {
  const has = (addresses: readonly Address[]): boolean => addresses.some((each) => sameAddress(each, address));
  if (has(service.clusterIps)) return { side: 'internal', port: portOf(service, asked) };
  if (asked.protocol === 'ICMP' || asked.port === undefined) return undefined;
  const protocol = protocolNumber(asked.protocol);
  const served = service.ports.filter((each) => each.protocol === protocol);
  const own = served.find(({ port }) => port === asked.port);
  if (own !== undefined && has(service.externalAddresses)) return { side: 'external', port: own };
  if (own !== undefined && has(service.balancerAddresses)) return { side: 'balancer', port: own };
  const byNode = node === undefined ? undefined : served.find(({ nodePort }) => nodePort === asked.port);
  return byNode === undefined ? undefined : { side: 'external', port: byNode };
}

/** A name without namespace is of that of the pod that sends, as in its DNS. @throws cli/usage */
function serviceNamed({ text, from }: AskedDestination): Pick<Service, 'namespace' | 'name'> {
  const [first = '', second, ...more] = text.slice(SERVICE.length).split('/');
  const own = from.kind === 'pod' ? (from.name.split('/')[0] ?? '') : 'default';
  const [namespace, name] = second === undefined ? [own, first] : [first, second];
  if (more.length === 0 && isObjectName(namespace) && isObjectName(name)) return { namespace, name };
  throw new NetplugError('cli/usage', `Cannot explain "${text}": it names no Service`, {
    hint: 'Write svc/NAMESPACE/NAME, or svc/NAME for one of the namespace of the pod that sends',
  });
}

/** @throws cli/usage when the Service has no such port */
function portOf(service: Service, { protocol, port }: AskedDestination): PortOfService {
  const refused = (why: string): NetplugError => {
    const ports = service.ports.map((each) => `${protocolName(each.protocol)} ${String(each.port)}`).join(', ');
    return new NetplugError('cli/usage', `Cannot follow ${serviceText(service)}: ${why}`, {
      hint: `Choose one of its ports with --port and --protocol: ${ports === '' ? 'it has none' : ports}`,
    });
  };
  if (protocol === 'ICMP') throw refused('kube-proxy translates no ICMP');
  const number = protocolNumber(protocol);
  const served = service.ports.filter((each) => each.protocol === number && (port === undefined || each.port === port));
  const [only, ...others] = served;
  if (only === undefined) throw refused(`it has no ${protocol} port${port === undefined ? '' : ` ${String(port)}`}`);
  if (others.length > 0) throw refused('it has several ports');
  return only;
}

interface FoundService {
  readonly service: Service;
  readonly endpoints: readonly EndpointOfService[];
}

interface AddressedService extends FoundService {
  readonly addresses: readonly {
    readonly address: Address;
    readonly side: ServiceSide;
    readonly node: string | undefined;
  }[];
  readonly port: PortOfService;
}

function destinationOf(
  plan: AddressPlan,
  asked: AskedDestination,
  { service, endpoints, addresses, port }: AddressedService,
): FoundDestination {
  const askedPort = asked.port ?? port.port;
  const targetsFrom = (source: ConnectionEnd): Targets => {
    const own = source.pod?.node ?? source.host;
    return joined(
      addresses
        .filter(({ address }) => address.family === source.address.family)
        .map(({ address, side, node: named }) => {
          // A node port is translated by the node whose address it is, all others by the node of the client.
          const node = named ?? own;
          const { isMasqueraded, backends, ...more } = serviceBackends({
            service,
            endpoints: endpoints.filter((each) => each.address.family === address.family),
            port,
            side,
            from: source.address,
            client: source.pod !== undefined ? 'pod' : source.host !== undefined ? 'host' : 'outside',
            node,
            isClientThere: node !== undefined && node === own,
          });
          const targets = backends.flatMap(({ address: at, port: targetPort }) => {
            const translation = { address, port: askedPort, targetPort, node, isMasqueraded, of: serviceText(service) };
            return endsAt(plan, at).map((end) => ({ end, translation }));
          });
          return { targets, ...more };
        }),
    );
  };
  return {
    to: serviceEnd(
      service,
      addresses.map(({ address }) => address),
      targetsFrom,
    ),
    port: askedPort,
  };
}

/** @throws cli/usage without a port */
function headlessDestination(
  plan: AddressPlan,
  { port, protocol }: AskedDestination,
  { service, endpoints }: FoundService,
): FoundDestination {
  const targetsFrom = (source: ConnectionEnd): Targets => {
    const { family } = source.address;
    const ofFamily = endpoints.filter(({ address }) => address.family === family);
    const { addresses, ...more } = headlessAddresses(ofFamily);
    return { targets: addresses.flatMap((address) => endsAt(plan, address)).map((end) => ({ end })), ...more };
  };
  if (port === undefined && protocol !== 'ICMP')
    throw new NetplugError('cli/usage', `Cannot follow ${serviceText(service)} without a port: it is headless`, {
      hint: 'Add --port with the port of its pods: nothing translates that of the Service',
    });
  const addresses = endpoints.map(({ address }) => address);
  return { to: serviceEnd(service, addresses, targetsFrom), port };
}

function serviceEnd(
  { namespace, name }: Service,
  addresses: readonly Address[],
  targetsFrom: (source: ConnectionEnd) => Targets,
): NamedDestination {
  const ends = addresses.map((address) => ({ address }));
  return { kind: 'service', name: `${SERVICE}${namespace}/${name}`, addresses: ends, notes: [], targetsFrom };
}

/** Returns the end that has the address of a backend, with its host endpoint. */
function endsAt(plan: AddressPlan, address: Address): readonly ConnectionEnd[] {
  return findEnd(plan, formatAddress(address)).addresses;
}

function joined(all: readonly Targets[]): Targets {
  const refusal = all.find((each) => each.refusal !== undefined)?.refusal;
  const targets = all.flatMap((each) => each.targets);
  return {
    targets,
    ...(refusal === undefined || targets.length > 0 ? {} : { refusal }),
    notes: all.flatMap((each) => each.notes),
  };
}
