import { invariant, never } from '../../../src/base/errors.ts';
import { type Address, type Family, formatAddress } from '../../../src/net/address.ts';
import { cidrContains, parseCidr } from '../../../src/net/cidr.ts';
import type {
  ConnectionState,
  FilterAction,
  FilterChain,
  FilterHook,
  FilterMatch,
  FilterSet,
  FilterTable,
  PacketSide,
  TableRule,
} from '../../../src/dataplane/policy-filter.ts';

/** A packet as a hook of the kernel sees it. */
export interface FilterPacket {
  readonly source: Address;
  readonly destination: Address;
  /** IANA number. */
  readonly protocol: number;
  readonly ports?: Readonly<Record<PacketSide, number>>;
  readonly icmp?: { readonly type: number; readonly code: number };
  readonly inInterface?: string;
  readonly outInterface?: string;
  readonly state: ConnectionState;
  /** A TCP packet that does not open a connection. */
  readonly isMidStream?: boolean;
  readonly isToHost: boolean;
  /** The destination of its connection is translated. */
  readonly isTranslated?: boolean;
  /** An earlier hook has marked it. */
  readonly isMarked?: boolean;
}

export interface PacketJudgement {
  readonly verdict: 'accept' | 'drop';
  /** The rules that counted the packet, in order. */
  readonly counted: readonly { readonly chain: string; readonly id: string }[];
  /** Prefixes of what was written to the kernel log, in order. */
  readonly logged: readonly string[];
  /** What was sent to NFLOG groups, in order. */
  readonly reported: readonly { readonly group: number; readonly prefix: string }[];
  readonly isUntracked: boolean;
  readonly isNoted: boolean;
  readonly isMarked: boolean;
}

/** The kernel refuses deeper chains. */
const MAX_DEPTH = 16;

/** Returns what the table does with the packet at the hook. */
export function judgePacket(table: FilterTable, hook: FilterHook['hook'], packet: FilterPacket): PacketJudgement {
  const judge = new Judge(table, packet);
  const bases = [...table.chains]
    .filter(([, chain]) => chain.hook?.hook === hook)
    .toSorted(([, a], [, b]) => (a.hook?.priority ?? 0) - (b.hook?.priority ?? 0));
  const isDropped = bases.some(([name]) => judge.walk(name, 0) === 'drop');
  return {
    verdict: isDropped ? 'drop' : 'accept',
    counted: judge.counted,
    logged: judge.logged,
    reported: judge.reported,
    isUntracked: judge.isUntracked,
    isNoted: judge.isNoted,
    isMarked: judge.isMarked,
  };
}

type Outcome = 'accept' | 'drop' | 'continue';

class Judge {
  readonly counted: PacketJudgement['counted'][number][] = [];
  readonly logged: string[] = [];
  readonly reported: PacketJudgement['reported'][number][] = [];
  isUntracked = false;
  isNoted = false;
  isMarked: boolean;
  readonly #table: FilterTable;
  readonly #packet: FilterPacket;

  constructor(table: FilterTable, packet: FilterPacket) {
    this.#table = table;
    this.#packet = packet;
    this.isMarked = packet.isMarked ?? false;
  }

  /** Evaluates the chain; `continue` when its end was reached or it returned. */
  walk(chain: string, depth: number): Outcome {
    invariant(depth <= MAX_DEPTH, 'chains are nested too deeply');
    for (const rule of this.#chain(chain).rules) {
      const outcome = this.#apply(rule, chain, depth);
      if (outcome === 'return') return 'continue';
      if (outcome !== 'continue') return outcome.verdict;
    }
    return 'continue';
  }

  /** Returns `continue` for the next rule. */
  #apply(rule: TableRule, chain: string, depth: number): 'continue' | 'return' | { readonly verdict: Outcome } {
    for (const part of rule.parts) {
      switch (part.kind) {
        case 'count':
          this.counted.push({ chain, id: rule.id });
          break;
        case 'log':
          this.logged.push(part.prefix);
          break;
        case 'report':
          this.reported.push({ group: part.group, prefix: part.prefix });
          break;
        case 'untrack':
          this.isUntracked = true;
          break;
        case 'note flow':
          this.isNoted = true;
          break;
        case 'mark':
          this.isMarked = part.isSet;
          break;
        case 'limit':
        case 'limit each':
          break;
        case 'masquerade':
        case 'translate':
          return { verdict: 'accept' };
        case 'accept':
        case 'drop':
          return { verdict: part.kind };
        case 'return':
          return 'return';
        case 'jump': {
          const verdict = this.walk(part.chain, depth + 1);
          if (verdict !== 'continue') return { verdict };
          break;
        }
        case 'goto':
          return { verdict: this.walk(part.chain, depth + 1) };
        case 'dispatch': {
          const next = this.#dispatched(part);
          if (next !== undefined) return { verdict: this.walk(next, depth + 1) };
          break;
        }
        case 'state':
        case 'family':
        case 'protocol':
        case 'nets':
        case 'member':
        case 'service':
        case 'flow':
        case 'ports':
        case 'icmp':
        case 'icmp code':
        case 'tcp opening':
        case 'interface':
        case 'address type':
        case 'foreign source':
        case 'source route':
        case 'payload':
        case 'translated':
        case 'marked':
          if (!this.#matches(part)) return 'continue';
          break;
        default:
          return never(part);
      }
    }
    return 'continue';
  }

  #chain(name: string): FilterChain {
    const chain = this.#table.chains.get(name);
    invariant(chain !== undefined, `there is no chain "${name}"`);
    return chain;
  }

  #dispatched({ direction, map }: FilterAction & { kind: 'dispatch' }): string | undefined {
    const name = direction === 'in' ? this.#packet.inInterface : this.#packet.outInterface;
    const set = this.#set(map);
    invariant(set.kind === 'interfaces', `"${map}" is not a map of interfaces`);
    return name === undefined ? undefined : set.elements.get(name);
  }

  #set(name: string): FilterSet {
    const set = this.#table.sets.get(name);
    invariant(set !== undefined, `there is no set "${name}"`);
    return set;
  }

  #matches(match: FilterMatch): boolean {
    const packet = this.#packet;
    switch (match.kind) {
      case 'state':
        return match.states.includes(this.isUntracked ? 'untracked' : packet.state);
      case 'marked':
        return this.isMarked;
      case 'translated':
        return packet.isTranslated === true;
      case 'family':
        return packet.source.family === match.family;
      case 'address type': {
        const types = match.side === 'destination' && packet.isToHost ? ['local'] : [];
        return types.includes(match.type) !== (match.isNegated === true);
      }
      case 'foreign source':
      case 'source route':
      case 'payload':
        return false;
      case 'protocol':
        return match.protocols.includes(packet.protocol) !== (match.isNegated === true);
      case 'interface':
        return this.#matchesInterface(match);
      case 'tcp opening':
        return (packet.isMidStream !== true) !== (match.isNegated === true);
      case 'flow':
        return this.#matchesFlow(match);
      case 'ports':
        return this.#matchesPorts(match);
      case 'icmp':
        return packet.icmp !== undefined && match.types.includes(packet.icmp.type) !== (match.isNegated === true);
      case 'icmp code': {
        if (packet.icmp === undefined) return false;
        const isSame = packet.icmp.type === match.type && packet.icmp.code === match.code;
        return isSame !== (match.isNegated === true);
      }
      case 'nets':
      case 'member':
      case 'service':
        return this.#matchesAddress(match);
      default:
        return never(match);
    }
  }

  #matchesInterface({ direction, name, isNegated = false }: FilterMatch & { kind: 'interface' }): boolean {
    const actual = (direction === 'in' ? this.#packet.inInterface : this.#packet.outInterface) ?? '';
    const isSame = name.endsWith('*') ? actual.startsWith(name.slice(0, -1)) : actual === name;
    return isSame !== isNegated;
  }

  #matchesFlow({ family, set }: FilterMatch & { kind: 'flow' }): boolean {
    const { source, destination, ports } = this.#packet;
    if (source.family !== family || ports === undefined) return false;
    const texts = [formatAddress(source), formatAddress(destination), ports.source, ports.destination];
    return this.#set(set).elements.has(texts.join(' '));
  }

  #matchesPorts({ side, spans, isNegated = false }: FilterMatch & { kind: 'ports' }): boolean {
    const port = this.#packet.ports?.[side];
    if (port === undefined) return false;
    return spans.some(({ first, last }) => first <= port && port <= last) !== isNegated;
  }

  #matchesAddress(match: FilterMatch & { kind: 'nets' | 'member' | 'service' }): boolean {
    const address = match.side === 'source' ? this.#packet.source : this.#packet.destination;
    if (address.family !== match.family) return false;
    if (match.kind === 'nets')
      return match.nets.some((net) => cidrContains(net, address)) !== (match.isNegated === true);
    const set = this.#set(match.set);
    invariant('family' in set && set.family === match.family, `"${match.set}" has another type`);
    const port = this.#packet.ports?.[match.side];
    if (match.kind === 'service' && port === undefined) return false;
    const text = formatAddress(address);
    const key = match.kind === 'service' ? `${text} ${String(this.#packet.protocol)} ${String(port)}` : text;
    return contains(set, key, address) !== (match.isNegated === true);
  }
}

function contains(set: FilterSet & { readonly family: Family }, key: string, address: Address): boolean {
  return set.kind === 'nets'
    ? [...set.elements].some((net) => cidrContains(parseCidr(net), address))
    : set.elements.has(key);
}
