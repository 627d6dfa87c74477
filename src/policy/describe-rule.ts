import { protocolName } from '../model/protocol.ts';
import { formatCidr } from '../net/cidr.ts';
import type { IcmpMatch, PeerMatch, PolicyRule, PortMatch } from './resolved-policy.ts';

const SHOWN_NETS = 4;

/**
 * Returns what the rule does and matches as one line, such as `Allow TCP from app == "gateway" to port 8080`. Selectors include
 * the namespace that they are limited to.
 */
export function describeRule({ action, source, destination, ...rule }: PolicyRule): string {
  const { family, protocol, notProtocol, icmp, notIcmp } = rule;
  const traffic = [
    ...(family === undefined ? [] : [`IPv${String(family)}`]),
    ...(protocol === undefined ? [] : [protocolName(protocol)]),
    ...(notProtocol === undefined ? [] : [`not ${protocolName(notProtocol)}`]),
    ...(icmp === undefined ? [] : [icmpText(icmp)]),
    ...(notIcmp === undefined ? [] : [`not ${icmpText(notIcmp)}`]),
    ...peerTexts('from', source),
    ...peerTexts('to', destination),
  ];
  return [action, ...(traffic.length === 0 ? ['all traffic'] : traffic)].join(' ');
}

function peerTexts(word: 'from' | 'to', peer: PeerMatch): readonly string[] {
  const { nets, notNets, selector, notSelector, ports, notPorts, service } = peer;
  const texts = [
    ...(selector === undefined ? [] : [selector.text]),
    ...(notSelector === undefined ? [] : [`not (${notSelector.text})`]),
    ...(nets === undefined ? [] : [listed(nets.map(formatCidr))]),
    ...(notNets === undefined ? [] : [`except ${listed(notNets.map(formatCidr))}`]),
    ...(service === undefined ? [] : [`service ${service.namespace}/${service.name}`]),
    ...(ports === undefined ? [] : [portsText(ports)]),
    ...(notPorts === undefined ? [] : [`except ${portsText(notPorts)}`]),
  ];
  return texts.length === 0 ? [] : [`${word} ${texts.join(' ')}`];
}

function portsText({ ranges, names }: PortMatch): string {
  const numbers = ranges.map(({ first, last }) =>
    first === last ? String(first) : `${String(first)}-${String(last)}`,
  );
  const texts = [...numbers, ...names];
  return `${texts.length === 1 && ranges.every(({ first, last }) => first === last) ? 'port' : 'ports'} ${texts.join(', ')}`;
}

function icmpText({ type, code }: IcmpMatch): string {
  return `type ${String(type)}${code === undefined ? '' : ` code ${String(code)}`}`;
}

function listed(texts: readonly string[]): string {
  if (texts.length === 0) return 'no address';
  const more = texts.length - SHOWN_NETS;
  return more > 0 ? `${texts.slice(0, SHOWN_NETS).join(', ')} and ${String(more)} more` : texts.join(', ');
}
