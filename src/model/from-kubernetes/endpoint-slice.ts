import * as v from 'valibot';
import { tryParseAddress } from '../../net/address.ts';
import { protocolNumber } from '../protocol.ts';
import type { ServiceEndpoints } from '../service-endpoints.ts';
import type { Converted, KubernetesObject } from './kubernetes-object.ts';

const SERVICE = 'kubernetes.io/service-name';

const Slice = v.object({
  endpoints: v.nullish(v.array(v.object({ addresses: v.nullish(v.array(v.string()), []) })), []),
  ports: v.nullish(
    v.array(v.object({ protocol: v.nullish(v.picklist(['TCP', 'UDP', 'SCTP']), 'TCP'), port: v.nullish(v.number()) })),
    [],
  ),
});

/**
 * Returns the endpoints of a service that an EndpointSlice lists, those that are not ready as well. No value for a slice
 * without a service.
 */
export function fromEndpointSlice(object: KubernetesObject): Converted<ServiceEndpoints> {
  const { namespace = 'default', name: slice, labels } = object.metadata;
  const name = labels?.[SERVICE];
  if (name === undefined || name === '') return { value: undefined, problems: [] };
  const read = v.safeParse(Slice, object);
  if (!read.success) {
    return {
      value: undefined,
      problems: [`EndpointSlice ${namespace}/${slice} cannot be used: ${read.issues[0].message}`],
    };
  }
  const addresses = read.output.endpoints.flatMap(({ addresses }) =>
    // Names of hosts stand here as well.
    addresses.flatMap((text) => tryParseAddress(text) ?? []),
  );
  const ports = read.output.ports.flatMap(({ protocol, port }) =>
    port === undefined || port === null ? [] : [{ protocol: protocolNumber(protocol), port }],
  );
  return { value: { namespace, name, addresses, ports }, problems: [] };
}
