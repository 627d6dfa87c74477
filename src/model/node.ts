import * as v from 'valibot';
import { field, listOf, objectWith, optionalField, oneOf, type SpecOf } from './field.ts';
import { type KindDeclaration, labelsText, nameColumn, wide } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { mergeKey } from './schema-shape.ts';
import { AddressText, addressText, addressWithPrefixText, AsNumber, CidrText, MacText } from './spec-types.ts';

const AddressEntry = objectWith('address and type', {
  address: field(AddressText, 'The address.'),
  type: field(oneOf(['NodeIP', 'InternalIP', 'ExternalIP']), 'Its purpose.'),
});

export const NODE_BGP_FIELDS = {
  ipv4Address: optionalField(addressWithPrefixText(4), 'IPv4 address, with the prefix of its subnet.'),
  ipv6Address: optionalField(addressWithPrefixText(6), 'IPv6 address, with the prefix of its subnet.'),
  asNumber: optionalField(AsNumber, "AS number of the node; the cluster's unless set."),
  routeReflectorClusterID: optionalField(addressText(4), 'Makes the node a route reflector with this cluster id.'),
};
const Bgp = objectWith('ipv4Address, ipv6Address, asNumber or routeReflectorClusterID', NODE_BGP_FIELDS);

/** The node's own agent writes most of these fields. */
export const NODE_FIELDS = {
  addresses: optionalField(
    v.pipe(listOf(AddressEntry, 'an array of objects with address and type'), mergeKey('address')),
    'Addresses of the node itself, for display and for routing.',
  ),
  bgp: optionalField(
    Bgp,
    'BGP settings of the node: its addresses with the prefix of their subnet, AS number and cluster id.',
  ),
  ipv4VXLANTunnelAddr: optionalField(addressText(4), "The node's IPv4 address inside the VXLAN."),
  vxlanTunnelMACAddr: optionalField(MacText, 'MAC address of its VXLAN device for IPv4.'),
  ipv6VXLANTunnelAddr: optionalField(addressText(6), "The node's IPv6 address inside the VXLAN."),
  vxlanTunnelMACAddrV6: optionalField(MacText, 'MAC address of its VXLAN device for IPv6.'),
  ipv4IPIPTunnelAddr: optionalField(addressText(4), "The node's address inside the IP-in-IP tunnel."),
  podCIDRs: optionalField(
    listOf(CidrText, 'an array of CIDRs'),
    'Ranges for host-local addresses, assigned by the orchestrator.',
  ),
  netplugVersion: optionalField(v.string('a version such as v3.27.0'), 'Release of the agent of the node.'),
};

export type NodeSpec = SpecOf<typeof NODE_FIELDS>;
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
    wide('LABELS', 'metadata.labels', ({ metadata }) => labelsText(metadata.labels)),
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
