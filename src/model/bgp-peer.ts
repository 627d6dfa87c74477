import * as v from 'valibot';
import { field, optionalField, oneOf, type SpecOf } from './field.ts';
import { type Address, type Family, tryParseAddress } from '../net/address.ts';
import { column, jointRules, type KindDeclaration, nameColumn, type Refuse, wide } from './kind-info.ts';
import type { PartialOutput } from './read-schema.ts';
import type { Resource } from './resource.ts';
import { AsNumber, BfdSettings, flag, PasswordSource, SelectorText, wholeNumber } from './spec-types.ts';

const PeerIp = v.pipe(
  v.string('an IP address, optionally with a port'),
  v.check((text) => readPeerIp(text) !== undefined, 'an IP address, optionally with a port'),
);

const BGP_PEER_FIELDS = {
  node: optionalField(v.string('the name of a node'), 'Name of the only node that has this peer.'),
  nodeSelector: optionalField(
    SelectorText,
    'Nodes that have this peer; without it and without "node", all nodes have it.',
  ),
  peerIP: optionalField(PeerIp, 'Address of the peer: 192.0.2.1, 192.0.2.1:1790, 2001:db8::1 or [2001:db8::1]:1790.'),
  asNumber: optionalField(AsNumber, 'AS number of the peer; goes with peerIP.'),
  peerSelector: optionalField(SelectorText, 'Nodes that are the peers, instead of peerIP.'),
  password: optionalField(PasswordSource, 'Password of the session (RFC 2385).'),
  keepOriginalNextHop: field(flag(false), 'Routes to an external peer keep their next hop.'),
  sourceAddress: field(
    v.optional(oneOf(['UseNodeIP', 'None']), 'UseNodeIP'),
    "Source of sessions: the node's own address, or an address that the kernel chooses.",
  ),
  maxRestartTime: optionalField(
    wholeNumber(1, 4095, 'seconds'),
    'How long routes of a peer that restarts are kept; 120 s unless set.',
  ),
  numAllowedLocalASNumbers: optionalField(
    wholeNumber(0, 10),
    "How often the node's own AS number may be in the path of a route it accepts; 0 unless set.",
  ),
  ttlSecurity: optionalField(
    wholeNumber(1, 255, 'hops'),
    'How many hops away the peer is at most, checked by TTL (RFC 5082).',
  ),
  bfd: optionalField(
    BfdSettings,
    'Watches the peer by BFD, which must also be configured there: routes of a lost peer go within 1 s. {} has the defaults.',
  ),
};

export type BgpPeerSpec = SpecOf<typeof BGP_PEER_FIELDS>;
export type BgpPeer = Resource<'BGPPeer', BgpPeerSpec>;

export const BGP_PEER: KindDeclaration<BgpPeer> = {
  plural: 'bgppeers',
  shortNames: ['bgpp', 'bgpps', 'bp'],
  scope: 'cluster',
  about: 'A BGP session between nodes and a router, or between nodes.',
  enforced: true,
  writtenBy: 'user',
  columns: [
    nameColumn(),
    column('PEERIP', 'spec.peerIP', ({ spec }) => spec.peerIP ?? ''),
    column('NODE', 'spec.node', ({ spec }) => spec.node ?? spec.nodeSelector ?? '(all)'),
    column('ASN', 'spec.asNumber', ({ spec }) => String(spec.asNumber ?? '')),
    wide('PEERSELECTOR', 'spec.peerSelector', ({ spec }) => spec.peerSelector ?? ''),
  ],
  fields: BGP_PEER_FIELDS,
  check: jointRules(BGP_PEER_FIELDS, checkBgpPeer),
  rules: [
    'node and nodeSelector exclude each other; with neither, all nodes have the peer.',
    'The peer is either peerIP with asNumber, or peerSelector without asNumber.',
    'bfd needs sourceAddress "UseNodeIP".',
  ],
  schemaRules: {
    spec: {
      allOf: [
        { not: { required: ['node', 'nodeSelector'] } },
        { not: { required: ['peerIP', 'peerSelector'] } },
        { not: { allOf: [{ not: { required: ['peerIP'] } }, { not: { required: ['peerSelector'] } }] } },
        { not: { required: ['peerIP'], not: { required: ['asNumber'] } } },
        { not: { required: ['peerSelector', 'asNumber'] } },
        { not: { required: ['bfd', 'sourceAddress'], properties: { sourceAddress: { enum: ['None'] } } } },
      ],
    },
  },
  example: {
    metadata: { name: 'rack-a' },
    spec: { nodeSelector: "rack == 'a'", peerIP: '192.0.2.1', asNumber: 64_600 },
  },
};

/** `192.0.2.1`, `192.0.2.1:179`, `2001:db8::1` or `[2001:db8::1]:179`; undefined for anything else. */
export function readPeerIp(text: string): { readonly address: Address; readonly port: number | undefined } | undefined {
  const { bracketed, plain, port } =
    /^(?:\[(?<bracketed>[^\]]+)\]:(?<port>\d{1,5})|(?<plain>.+))$/.exec(text)?.groups ?? {};
  if (bracketed !== undefined) return withPort(bracketed, port, 6);
  const whole = tryParseAddress(plain ?? '');
  if (whole !== undefined) return { address: whole, port: undefined };
  const at = (plain ?? '').lastIndexOf(':');
  return at === -1 ? undefined : withPort((plain ?? '').slice(0, at), (plain ?? '').slice(at + 1), 4);
}

function withPort(
  text: string,
  portText: string | undefined,
  family: Family,
): { readonly address: Address; readonly port: number } | undefined {
  const address = tryParseAddress(text);
  const port = Number(portText);
  const isPort = /^\d{1,5}$/.test(portText ?? '') && port >= 1 && port <= 65_535;
  return address?.family === family && isPort ? { address, port } : undefined;
}

function checkBgpPeer(spec: PartialOutput<typeof BGP_PEER_FIELDS>, refuse: Refuse): void {
  if (spec.node !== undefined && spec.nodeSelector !== undefined)
    refuse('nodeSelector', 'excludes node: give one of them, or none for all nodes');
  if (spec.peerIP !== undefined && spec.peerSelector !== undefined)
    refuse('peerSelector', 'excludes peerIP: give one of them');
  if (spec.peerIP === undefined && spec.peerSelector === undefined)
    refuse('peerIP', 'missing; needed is an IP address, or peerSelector instead');
  if (spec.peerIP !== undefined && spec.asNumber === undefined)
    refuse('asNumber', 'missing; needed with peerIP is the AS number of the peer');
  if (spec.peerSelector !== undefined && spec.asNumber !== undefined)
    refuse('asNumber', 'excludes peerSelector: nodes have their own AS numbers');
  if (spec.bfd !== undefined && spec.sourceAddress === 'None')
    refuse('bfd', 'needs sourceAddress "UseNodeIP": BFD sends from an address that is known beforehand');
}
