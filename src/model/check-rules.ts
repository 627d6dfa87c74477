import type { Family } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import type { Refuse } from './kind-info.ts';
import type { Entity, Rule } from './policy-rule.ts';
import { hasPorts, type Protocol, protocolNumber } from './protocol.ts';

export type Direction = 'ingress' | 'egress';
const SIDES = ['source', 'destination'] as const;
const ICMP_FAMILY: Readonly<Record<number, Family>> = { 1: 4, 58: 6 };

/** The constraints between fields of a rule, as sentences. */
export const RULE_RULES: readonly string[] = [
  'ports and notPorts need protocol `TCP`, `UDP` or `SCTP`; icmp and notICMP need `ICMP` or `ICMPv6`.',
  'A rule applies to one address family: ipVersion, all nets and ICMP agree.',
  'services is allowed in the destination of an egress rule and in the source of an ingress rule, without nets, selectors, serviceAccounts and ports beside it.',
  'http is allowed in ingress rules with action `Allow` and protocol `TCP` or none, in policies without doNotTrack and preDNAT.',
];

export function checkRules(rules: readonly Rule[] | undefined, direction: Direction, refuse: Refuse): void {
  for (const [index, rule] of (rules ?? []).entries()) {
    const inRule: Refuse = (field, message) => refuse(`${direction}[${String(index)}].${field}`, message);
    checkPorts(rule, inRule);
    checkIcmp(rule, inRule);
    checkFamily(rule, inRule);
    checkServices(rule, direction, inRule);
    checkHttp(rule, direction, inRule);
  }
}

function checkPorts({ protocol, ...rule }: Rule, refuse: Refuse): void {
  if (protocol !== undefined && hasPorts(protocol)) return;
  for (const side of SIDES) {
    for (const field of ['ports', 'notPorts'] as const) {
      if (rule[side]?.[field] !== undefined)
        refuse(`${side}.${field}`, 'needs protocol "TCP", "UDP" or "SCTP" in the same rule');
    }
  }
}

function checkIcmp(rule: Rule, refuse: Refuse): void {
  if (icmpFamily(rule.protocol) !== undefined) return;
  for (const field of ['icmp', 'notICMP'] as const) {
    if (rule[field] !== undefined) refuse(field, 'needs protocol "ICMP" or "ICMPv6" in the same rule');
  }
}

function checkFamily(rule: Rule, refuse: Refuse): void {
  const said = [
    ...(rule.ipVersion === undefined ? [] : [{ family: rule.ipVersion, field: 'ipVersion' }]),
    ...[icmpFamily(rule.protocol)].flatMap((family) => (family === undefined ? [] : [{ family, field: 'protocol' }])),
    ...SIDES.flatMap((side) =>
      (['nets', 'notNets'] as const).flatMap((list) =>
        (rule[side]?.[list] ?? []).map((net, index) => ({
          family: parseCidr(net).base.family,
          field: `${side}.${list}[${String(index)}]`,
        })),
      ),
    ),
  ];
  const [first, ...others] = said;
  for (const { family, field } of others) {
    if (family === first?.family) continue;
    refuse(field, `is for IPv${String(family)}, while ${first?.field ?? ''} is for IPv${String(first?.family)}`);
  }
}

function checkServices(rule: Rule, direction: Direction, refuse: Refuse): void {
  const right = direction === 'ingress' ? 'source' : 'destination';
  for (const side of SIDES) {
    const { services, ...beside }: Entity = rule[side] ?? {};
    if (services === undefined) continue;
    if (side !== right)
      refuse(`${side}.services`, `is not allowed: in an ${direction} rule it belongs in the ${right}`);
    for (const field of Object.keys(beside)) {
      if (side === right)
        refuse(`${side}.${field}`, 'is not allowed beside services, which select the endpoints alone');
    }
  }
}

function checkHttp(rule: Rule, direction: Direction, refuse: Refuse): void {
  const fault = httpFault(rule, direction);
  if (fault !== undefined) refuse('http', fault);
}

/** Returns why the rule may not ask for requests; undefined when it may, or does not. */
export function httpFault({ http, action, protocol }: Rule, direction: Direction): string | undefined {
  if (http === undefined) return undefined;
  if (direction === 'egress') return 'is not allowed: it is for ingress rules';
  if (action !== 'Allow') return 'is not allowed: it is for rules with action "Allow"';
  return protocol === undefined || protocolNumber(protocol) === 6 ? undefined : 'needs protocol "TCP", or none';
}

function icmpFamily(protocol: Protocol | undefined): Family | undefined {
  return protocol === undefined ? undefined : ICMP_FAMILY[protocolNumber(protocol)];
}
