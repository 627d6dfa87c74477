import * as v from 'valibot';
import { type KindDeclaration, nameColumn, wide } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { mergeKey } from './schema-shape.ts';
import { AddressText, addressText, addressWithPrefixText, AsNumber, CidrText, MacText } from './spec-types.ts';

const AddressEntry = v.pipe(
  v.looseObject(
    {
      address: v.pipe(AddressText, v.description('The address.')),
      type: v.pipe(
        v.picklist(['NodeIP', 'InternalIP', 'ExternalIP'], '"NodeIP", "InternalIP" or "ExternalIP"'),
        v.description('Its purpose.'),
      ),
    },
    'an object with address and type',
  ),
  v.readonly(),
);

export const NODE_BGP_FIELDS = {
  ipv4Address: v.optional(
    v.pipe(addressWithPrefixText(4), v.description('IPv4 address, with the prefix of its subnet.')),
  ),
  ipv6Address: v.optional(
    v.pipe(addressWithPrefixText(6), v.description('IPv6 address, with the prefix of its subnet.')),
  ),
  asNumber: v.optional(v.pipe(AsNumber, v.description("AS number of the node; the cluster's unless set."))),
  routeReflectorClusterID: v.optional(
    v.pipe(addressText(4), v.description('Makes the node a route reflector with this cluster id.')),
  ),
};
const Bgp = v.looseObject(
  NODE_BGP_FIELDS,
  'an object with ipv4Address, ipv6Address, asNumber or routeReflectorClusterID',
);

/** The node's own agent writes most of these fields. */
export const NODE_FIELDS = {
  addresses: v.optional(
    v.pipe(
      v.array(AddressEntry, 'an array of objects with address and type'),
      v.readonly(),
      mergeKey('address'),
      v.description('Addresses of the node itself, for display and for routing.'),
    ),
  ),
  bgp: v.optional(
    v.pipe(
      Bgp,
      v.readonly(),
      v.description(
        'BGP settings of the node: its addresses with the prefix of their subnet, AS number and cluster id.',
      ),
    ),
  ),
  ipv4VXLANTunnelAddr: v.optional(v.pipe(addressText(4), v.description("The node's IPv4 address inside the VXLAN."))),
  vxlanTunnelMACAddr: v.optional(v.pipe(MacText, v.description('MAC address of its VXLAN device for IPv4.'))),
  ipv6VXLANTunnelAddr: v.optional(v.pipe(addressText(6), v.description("The node's IPv6 address inside the VXLAN."))),
  vxlanTunnelMACAddrV6: v.optional(v.pipe(MacText, v.description('MAC address of its VXLAN device for IPv6.'))),
  ipv4IPIPTunnelAddr: v.optional(
    v.pipe(addressText(4), v.description("The node's address inside the IP-in-IP tunnel.")),
  ),
  podCIDRs: v.optional(
    v.pipe(
      v.array(CidrText, 'an array of CIDRs'),
      v.readonly(),
      v.description('Ranges for host-local addresses, assigned by the orchestrator.'),
    ),
  ),
  netplugVersion: v.optional(
    v.pipe(v.string('a version such as v3.27.0'), v.description('Release of the agent of the node.')),
  ),
};

export type NodeSpec = Readonly<v.InferOutput<v.ObjectSchema<typeof NODE_FIELDS, undefined>>>;
/** A node. Pools select nodes by `metadata.labels`. */
export type Node = Resource<'Node', NodeSpec>;

export const NODE: KindDeclaration<Node> = {
  plural: 'nodes',
  shortNames: ['no', 'nos'],
  scope: 'cluster',
  about:
    "A node. With datastore_type `orch` it is a view of the orchestrator's Node, which must be changed there; the agent of the node copies it for other nodes into a NetplugNode, which must not be edited.",
  enforced: true,
  writtenBy: 'user',
  columns: [
    nameColumn(),
    wide('ADDRESSES', 'spec.addresses', ({ spec }) => (spec.addresses ?? []).map(({ address }) => address).join(',')),
    wide('LABELS', 'metadata.labels', ({ metadata }) =>
      Object.entries(metadata.labels ?? {})
        .map(([key, value]) => `${key}=${value}`)
        .join(','),
    ),
    wide('ASN', 'spec.bgp.asNumber', ({ spec }) => String(spec.bgp?.asNumber ?? '')),
    wide('IPV4', 'spec.bgp.ipv4Address', ({ spec }) => spec.bgp?.ipv4Address ?? ''),
    wide('IPV6', 'spec.bgp.ipv6Address', ({ spec }) => spec.bgp?.ipv6Address ?? ''),
    wide('VERSION', 'spec.netplugVersion', ({ spec }) => spec.netplugVersion ?? ''),
  ],
  fields: NODE_FIELDS,
  example: {
    metadata: { name: 'node-1', labels: { zone: 'a' } },
    spec: { bgp: { ipv4Address: '192.0.2.7/24', asNumber: 64_513 } },
  },
};
