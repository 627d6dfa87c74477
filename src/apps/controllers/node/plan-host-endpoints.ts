import { isDeepStrictEqual } from 'node:util';
import type { HostEndpointSettings } from '../../../config/controllers-settings.ts';
import { given } from '../../../base/given.ts';
import { automaticName, CONTROLLERS, CREATED_BY_LABEL, isAutomatic } from '../../../model/automatic-host-endpoint.ts';
import { ALL_INTERFACES, type HostEndpoint } from '../../../model/host-endpoint.ts';
import type { Node } from '../../../model/node.ts';
import { DEFAULT_ALLOW } from '../../../model/profile.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { matchesSelector } from '../../../model/selector.ts';
import { formatAddress, parseAddress, tryParseAddress } from '../../../net/address.ts';
import { cidrContains, parseCidr, tryReadCidr } from '../../../net/cidr.ts';
import type { KeyPlan } from '../keyed-controller.ts';
import { OWN_LABELS, type ResourceWrite } from '../resource-write.ts';

/** Returns the automatic endpoints that the settings ask for on a node. No two have one name. */
export function desiredHostEndpoints(node: Node, settings: HostEndpointSettings): readonly HostEndpoint[] {
  if (!settings.autoCreate) return [];
  const addresses = addressesOf(node);
  const { name, labels = {} } = node.metadata;
  const byDefault = settings.createDefault
    ? [endpointOf(node, { name: automaticName(name), labels, interfaceName: ALL_INTERFACES, addresses })]
    : [];
  const byTemplate = settings.templates
    .filter(({ nodeSelector }) => nodeSelector === undefined || matchesSelector(nodeSelector, labels))
    .flatMap(({ generateName, interfaceCIDRs, labels: extra = {} }) => {
      const ranges = interfaceCIDRs.map((text) => parseCidr(text));
      const own = addresses.filter((text) => ranges.some((range) => cidrContains(range, parseAddress(text))));
      if (own.length === 0) return [];
      const as = { name: automaticName(`${name}-${generateName}`), labels: { ...labels, ...extra }, addresses: own };
      return [endpointOf(node, as)];
    });
  return [...byDefault, ...byTemplate];
}

/**
 * Plans what makes the endpoints of one node the desired ones. `present` are those on the node, and those of other nodes with a
 * name that is desired here. Changes only what the controller decides: profiles and ports that a user wrote stay.
 */
export function planHostEndpoints(
  desired: readonly HostEndpoint[],
  present: readonly HostEndpoint[],
  isNode: (name: string) => boolean,
): KeyPlan<ResourceWrite> {
  const byName = new Map(present.map((endpoint) => [endpoint.metadata.name, endpoint]));
  const wanted = new Set(desired.map(({ metadata }) => metadata.name));
  const changes: ResourceWrite[] = [];
  const problems: string[] = [];
  for (const endpoint of desired) {
    const { name } = endpoint.metadata;
    const { node } = endpoint.spec;
    const before = byName.get(name);
    if (before === undefined) changes.push({ kind: 'create', resource: endpoint });
    else if (!isAutomatic(before))
      problems.push(
        `HostEndpoint "${name}" has the name of an automatic one, but not the label ${CREATED_BY_LABEL}=${CONTROLLERS}: it stays, and node "${node}" gets no automatic one of this name`,
      );
    else if (before.spec.node !== node && isNode(before.spec.node))
      problems.push(
        `HostEndpoint "${name}" belongs to node "${before.spec.node}": it stays, and node "${node}" gets none of this name`,
      );
    else {
      const after = withDecided(before, endpoint);
      if (!isDeepStrictEqual(before, after)) changes.push({ kind: 'update', resource: after });
    }
  }
  for (const endpoint of present)
    if (isAutomatic(endpoint) && !wanted.has(endpoint.metadata.name)) changes.push(deletionOf(endpoint));
  return { changes, problems };
}

export function deletionOf({ kind, metadata }: HostEndpoint): ResourceWrite {
  return { kind: 'delete', which: { kind, name: metadata.name }, version: metadata.resourceVersion ?? '' };
}

/** The addresses of the node, each once: its own, those of its tunnel devices, and those that the orchestrator knows. */
function addressesOf({ spec }: Node): readonly string[] {
  const { bgp = {}, addresses = [] } = spec;
  const texts = [
    bgp.ipv4Address,
    bgp.ipv6Address,
    spec.ipv4IPIPTunnelAddr,
    spec.ipv4VXLANTunnelAddr,
    spec.ipv6VXLANTunnelAddr,
    ...addresses.filter(({ type }) => type !== 'ExternalIP').map(({ address }) => address),
  ];
  const read = texts.flatMap((text) => (text === undefined ? [] : (addressIn(text) ?? [])));
  return [...new Set(read)];
}

function addressIn(text: string): string | undefined {
  const address = tryParseAddress(text) ?? tryReadCidr(text)?.address;
  return address === undefined ? undefined : formatAddress(address);
}

interface Generated {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly interfaceName?: string;
  readonly addresses: readonly string[];
}

function endpointOf(node: Node, { name, labels, interfaceName, addresses }: Generated): HostEndpoint {
  return {
    apiVersion: API_VERSION,
    kind: 'HostEndpoint',
    metadata: { name, labels: { ...labels, ...OWN_LABELS } },
    spec: {
      node: node.metadata.name,
      ...given({ interfaceName }),
      ...(addresses.length === 0 ? {} : { expectedIPs: addresses }),
      profiles: [DEFAULT_ALLOW.metadata.name],
    },
  };
}

function withDecided(before: HostEndpoint, { metadata, spec }: HostEndpoint): HostEndpoint {
  const { node: _node, interfaceName: _name, expectedIPs: _ips, ...kept } = before.spec;
  const { node, interfaceName, expectedIPs } = spec;
  return {
    ...before,
    metadata: { ...before.metadata, ...given({ labels: metadata.labels }) },
    spec: { ...kept, node, ...given({ interfaceName, expectedIPs }) },
  };
}
