import * as v from 'valibot';
import { tryParseAddress } from '../../net/address.ts';
import { tryReadCidr } from '../../net/cidr.ts';
import { protocolNumber } from '../protocol.ts';
import type { EndpointOfService, Service } from '../service.ts';
import type { Converted, KubernetesObject } from './kubernetes-object.ts';

const Protocol = v.nullish(v.picklist(['TCP', 'UDP', 'SCTP']), 'TCP');
const Texts = v.nullish(v.array(v.string()), []);
const Policy = v.nullish(v.picklist(['Cluster', 'Local']), 'Cluster');

const ServiceObject = v.object({
  spec: v.object({
    type: v.nullish(v.string(), 'ClusterIP'),
    clusterIP: v.nullish(v.string(), ''),
    clusterIPs: Texts,
    externalIPs: Texts,
    loadBalancerSourceRanges: Texts,
    externalName: v.nullish(v.string(), ''),
    sessionAffinity: v.nullish(v.string(), 'None'),
    internalTrafficPolicy: Policy,
    externalTrafficPolicy: Policy,
    ports: v.nullish(
      v.array(
        v.object({
          name: v.nullish(v.string(), ''),
          protocol: Protocol,
          port: v.number(),
          nodePort: v.nullish(v.number(), 0),
        }),
      ),
      [],
    ),
  }),
  status: v.nullish(
    v.object({
      loadBalancer: v.nullish(
        v.object({
          ingress: v.nullish(
            v.array(v.object({ ip: v.nullish(v.string(), ''), ipMode: v.nullish(v.string(), 'VIP') })),
            [],
          ),
        }),
      ),
    }),
  ),
});

const Slice = v.object({
  endpoints: v.nullish(
    v.array(
      v.object({
        addresses: Texts,
        nodeName: v.nullish(v.string(), ''),
        hints: v.nullish(v.unknown()),
        conditions: v.nullish(
          v.object({
            ready: v.nullish(v.boolean(), true),
            serving: v.nullish(v.boolean()),
            terminating: v.nullish(v.boolean(), false),
          }),
          {},
        ),
      }),
    ),
    [],
  ),
  ports: v.nullish(
    v.array(v.object({ name: v.nullish(v.string(), ''), protocol: Protocol, port: v.nullish(v.number()) })),
    [],
  ),
});

/** Returns the Service; no value and a problem for one that cannot be read. */
export function fromService(object: KubernetesObject): Converted<Service> {
  const { namespace = 'default', name } = object.metadata;
  const read = v.safeParse(ServiceObject, object);
  if (!read.success)
    return { value: undefined, problems: [`Service ${namespace}/${name} cannot be used: ${read.issues[0].message}`] };
  const { spec, status } = read.output;
  const clusterIps = [...new Set([spec.clusterIP, ...spec.clusterIPs])];
  // Load balancers of the mode Proxy expect packets to come to them.
  const balancers = (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, ipMode }) => (ipMode === 'VIP' ? [ip] : []));
  const value: Service = {
    namespace,
    name,
    ...(spec.type === 'ExternalName' ? { externalName: spec.externalName } : {}),
    isHeadless: clusterIps.includes('None'),
    clusterIps: clusterIps.flatMap((text) => tryParseAddress(text) ?? []),
    externalAddresses: spec.externalIPs.flatMap((text) => tryParseAddress(text) ?? []),
    balancerAddresses: balancers.flatMap((text) => tryParseAddress(text) ?? []),
    // The API accepts spaces around a range, and bits right of its prefix.
    sourceRanges: spec.loadBalancerSourceRanges.flatMap((text) => tryReadCidr(text.trim())?.cidr ?? []),
    ports: spec.ports.map(({ protocol, nodePort, ...port }) => ({
      ...port,
      protocol: protocolNumber(protocol),
      ...(nodePort === 0 ? {} : { nodePort }),
    })),
    internalTrafficPolicy: spec.internalTrafficPolicy,
    externalTrafficPolicy: spec.externalTrafficPolicy,
    hasAffinity: spec.sessionAffinity === 'ClientIP',
  };
  return { value, problems: [] };
}

/** Returns the endpoints of an EndpointSlice with their states; a problem for one that cannot be read. */
export function endpointsOfSlice(object: KubernetesObject): Converted<readonly EndpointOfService[]> {
  const { namespace = 'default', name } = object.metadata;
  const read = v.safeParse(Slice, object);
  if (!read.success) {
    const why = read.issues[0].message;
    return { value: undefined, problems: [`EndpointSlice ${namespace}/${name} cannot be used: ${why}`] };
  }
  const ports = read.output.ports.flatMap(({ port, protocol, ...named }) =>
    port === undefined || port === null ? [] : [{ ...named, protocol: protocolNumber(protocol), port }],
  );
  const value = read.output.endpoints.flatMap(({ addresses, nodeName, hints, conditions }) => {
    const { ready, serving, terminating } = conditions;
    // Consumers use the first address alone.
    const address = tryParseAddress(addresses[0] ?? '');
    if (address === undefined) return [];
    return [
      {
        address,
        ...(nodeName === '' ? {} : { node: nodeName }),
        isReady: ready,
        isServing: serving ?? ready,
        isTerminating: terminating,
        hasHints: hints !== undefined && hints !== null,
        ports,
      },
    ];
  });
  return { value, problems: [] };
}
