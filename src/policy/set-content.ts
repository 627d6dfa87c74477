import { never } from '../base/errors.ts';
import { getOrInsert } from '../base/get-or-insert.ts';
import { type Cidr, formatCidr } from '../net/cidr.ts';
import type { TouchedPolicy } from './policy-view.ts';
import type { PeerMatch, PeerSelector, PolicyRule, PortMatch } from './resolved-policy.ts';

/** Content of a set. Each exists for both families. */
export type SetContent =
  | { readonly kind: 'members'; readonly selector: PeerSelector }
  /** CIDRs with the tunnel addresses of the nodes in them; no set where there are none. */
  | { readonly kind: 'nets'; readonly nets: readonly Cidr[] }
  | { readonly kind: 'named port'; readonly name: string; readonly protocol: number }
  | {
      readonly kind: 'service';
      readonly namespace: string;
      readonly name: string;
      /** Addresses alone, or each with its protocol and port. */
      readonly holds: 'addresses' | 'ports';
    }
  /** Addresses and ports behind which each request is judged. */
  | { readonly kind: 'guarded' };

/** Protocols with ports: TCP, UDP, SCTP, UDP-Lite. */
export const PORT_PROTOCOLS: readonly number[] = [6, 17, 132, 136];

export function keyOfContent(content: SetContent): string {
  switch (content.kind) {
    case 'members':
      return `members ${content.selector.id}`;
    case 'nets':
      return keyOfNets(content.nets);
    case 'named port':
      return `port ${String(content.protocol)} ${content.name}`;
    case 'service':
      return `service ${content.namespace}/${content.name} ${content.holds}`;
    case 'guarded':
      return content.kind;
    default:
      return never(content);
  }
}

/** Reports whether the change affects the content. That of members it names by their selectors. */
export function isContentTouched(content: Exclude<SetContent, { kind: 'members' }>, touched: TouchedPolicy): boolean {
  switch (content.kind) {
    case 'nets':
      return touched.nodes.size > 0;
    case 'named port':
      return touched.namedPorts.has(`${String(content.protocol)} ${content.name}`);
    case 'service':
      return touched.services.has(`${content.namespace}/${content.name}`);
    case 'guarded':
      return touched.guards.size > 0;
    default:
      return never(content);
  }
}

/** Every compilation asks for the keys of all rules. */
const keysOfNets = new WeakMap<readonly Cidr[], string>();

function keyOfNets(nets: readonly Cidr[]): string {
  return getOrInsert(keysOfNets, nets, () => `nets ${nets.map(formatCidr).join(' ')}`);
}

/** Returns the contents of the sets that the rules look up. */
export function contentsOf(rules: readonly PolicyRule[]): readonly SetContent[] {
  return rules.flatMap(({ protocol, http, source, destination }) => [
    ...(http === undefined ? [] : [{ kind: 'guarded' } as const]),
    ...contentsAt(source, 'addresses', protocol),
    ...contentsAt(destination, 'ports', protocol),
  ]);
}

function contentsAt(
  { nets, notNets, selector, notSelector, service, ports, notPorts }: PeerMatch,
  holds: 'addresses' | 'ports',
  protocol: number | undefined,
): readonly SetContent[] {
  const selectors = [selector, notSelector].filter((each) => each !== undefined);
  const lists = [nets, notNets].filter((each) => each !== undefined);
  return [
    ...lists.map((each): SetContent => ({ kind: 'nets', nets: each })),
    ...selectors.map((each): SetContent => ({ kind: 'members', selector: each })),
    ...(service === undefined ? [] : [{ kind: 'service', ...service, holds } as const]),
    ...[ports, notPorts].flatMap((match) => namedPorts(match, protocol)),
  ];
}

/** Returns the ports that the match names, of each protocol that a rule with this one, or without, has. */
export function namedPorts(match: PortMatch | undefined, protocol: number | undefined): readonly SetContent[] {
  const protocols = protocol === undefined ? PORT_PROTOCOLS : [protocol];
  return (match?.names ?? []).flatMap((name) =>
    protocols.map((one) => ({ kind: 'named port', name, protocol: one }) as const),
  );
}
