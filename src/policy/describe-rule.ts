import { protocolName } from '../model/protocol.ts';
import { formatCidr } from '../net/cidr.ts';
import type { HttpMatch, IcmpMatch, PathMatch, PeerMatch, PolicyRule, PortMatch } from './resolved-policy.ts';

const SHOWN_PARTS = 4;

/**
 * Returns what the rule does and matches as one line, such as `Allow TCP from app == "gateway" to port 8080`. Selectors include
 * the namespace that they are limited to.
 */
export function describeRule({ action, source, destination, ...rule }: PolicyRule): string {
  const { family, protocol, notProtocol, icmp, notIcmp, http } = rule;
  const traffic = [
    ...(family === undefined ? [] : [`IPv${String(family)}`]),
    ...(protocol === undefined ? [] : [protocolName(protocol)]),
    ...(notProtocol === undefined ? [] : [`not ${protocolName(notProtocol)}`]),
    ...(icmp === undefined ? [] : [icmpText(icmp)]),
    ...(notIcmp === undefined ? [] : [`not ${icmpText(notIcmp)}`]),
    ...(http === undefined ? [] : [requestsText(http)]),
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

function requestsText({ methods, paths }: HttpMatch): string {
  const parts = [
    ...(methods === undefined ? [] : [listed(methods)]),
    ...(paths === undefined ? [] : [listed(paths.map(pathText))]),
  ];
  return parts.length === 0 ? 'requests' : `requests (${parts.join('; ')})`;
}

function pathText(path: PathMatch): string {
  return 'exact' in path ? path.exact : `${path.prefix} and below`;
}

function icmpText({ type, code }: IcmpMatch): string {
  return `type ${String(type)}${code === undefined ? '' : ` code ${String(code)}`}`;
}

function listed(texts: readonly string[]): string {
  if (texts.length === 0) return 'no address';
  const more = texts.length - SHOWN_PARTS;
  return more > 0 ? `${texts.slice(0, SHOWN_PARTS).join(', ')} and ${String(more)} more` : texts.join(', ');
}
