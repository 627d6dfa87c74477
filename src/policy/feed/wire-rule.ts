import { formatCidr, parseCidr } from '../../net/cidr.ts';
import type { PeerMatch, PolicyRule } from '../resolved-policy.ts';

/** A rule as one program sends it to another in JSON, which has no addresses. */
export interface WireRule extends Omit<PolicyRule, 'source' | 'destination'> {
  readonly source: WirePeer;
  readonly destination: WirePeer;
}

interface WirePeer extends Omit<PeerMatch, 'nets' | 'notNets'> {
  readonly nets?: readonly string[];
  readonly notNets?: readonly string[];
}

/** Parts of a rule that a format has. One that a program does not know would be ignored there, and the rule match more. */
export interface KnownFields {
  readonly rule: readonly string[];
  readonly peer: readonly string[];
}

const OF_RULE = ['action', 'family', 'protocol', 'notProtocol', 'icmp', 'notIcmp', 'http', 'source', 'destination'];
const OF_PEER = ['nets', 'notNets', 'selector', 'notSelector', 'accounts', 'ports', 'notPorts', 'service'];
export const FORMAT_1: KnownFields = { rule: [...OF_RULE, 'index'], peer: OF_PEER };

/** Returns the rule for a program that knows these fields; undefined for one that it must not have, because it would open more. */
export function lowered(rule: PolicyRule, known: KnownFields): PolicyRule | undefined {
  const [source, destination] = [only(rule.source, known.peer), only(rule.destination, known.peer)];
  const part = { ...only(rule, known.rule), source, destination };
  const isWhole = [
    [part, rule],
    [source, rule.source],
    [destination, rule.destination],
  ].every(([one = {}, other = {}]) => Object.keys(one).length === Object.keys(other).length);
  if (isWhole) return rule;
  // A Deny without one of its conditions denies more.
  return rule.action === 'Deny' ? part : undefined;
}

/** Returns the object with these of its fields. */
function only<T extends object>(whole: T, fields: readonly string[]): T {
  return Object.fromEntries(Object.entries(whole).filter(([field]) => fields.includes(field))) as T;
}

export function toWire({ source, destination, ...rest }: PolicyRule): WireRule {
  return { ...rest, source: peerToWire(source), destination: peerToWire(destination) };
}

/** @throws for what is no rule */
export function fromWire({ source, destination, ...rest }: WireRule): PolicyRule {
  return { ...rest, source: peerFromWire(source), destination: peerFromWire(destination) };
}

function peerToWire({ nets, notNets, ...rest }: PeerMatch): WirePeer {
  return {
    ...rest,
    ...(nets === undefined ? {} : { nets: nets.map(formatCidr) }),
    ...(notNets === undefined ? {} : { notNets: notNets.map(formatCidr) }),
  };
}

function peerFromWire({ nets, notNets, ...rest }: WirePeer): PeerMatch {
  return {
    ...rest,
    ...(nets === undefined ? {} : { nets: nets.map(parseCidr) }),
    ...(notNets === undefined ? {} : { notNets: notNets.map(parseCidr) }),
  };
}
