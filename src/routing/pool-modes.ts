import type { IpPool } from '../model/ip-pool.ts';
import type { Address } from '../net/address.ts';
import { type Cidr, cidrContains, parseCidr } from '../net/cidr.ts';
import { type TunnelKind, tunnelKind } from './tunnels.ts';

/** Way by which packets for a pool's addresses travel between nodes. */
export type PoolMode = { readonly kind: 'bgp' } | TunnelMode;

interface TunnelMode {
  readonly kind: 'vxlan' | 'ipip';
  readonly extent: 'Always' | 'CrossSubnet';
}

/** A pool with its mode, and the replaced modes that are still in effect. */
export interface RoutedPool {
  readonly pool: IpPool;
  readonly cidr: Cidr;
  readonly mode: PoolMode;
  /** Modes by which this node sends, each where those before it do not reach. */
  readonly sending: readonly PoolMode[];
  /** All modes by which other nodes may still send, for which this node must be ready to receive. */
  readonly open: readonly PoolMode[];
}

/**
 * Time for which this node sends by a replaced mode. Nodes do not see the change at the same time, and BGP needs time
 * to converge: until then both modes must work, or packets are lost.
 */
export const LINGER_MS = 30_000;
/**
 * Time for which a replaced tunnel comes before the new mode: nodes that have not seen the change yet take nothing from beside it.
 */
export const SETTLE_MS = 5000;
/** Further time for which this node receives by a replaced mode, because other nodes stop sending later. */
export const OPEN_MS = 10_000;

interface Past {
  readonly mode: PoolMode;
  /** When this node stops sending by it. */
  readonly untilMs: number;
  readonly hasStopped: boolean;
  /** Whether it comes before the present mode. */
  readonly isFirst: boolean;
}

/** The pools of the cluster, by name, with their replaced modes. Times are of the monotonic clock. */
export class PoolModes {
  readonly #pools = new Map<
    string,
    { readonly routed: Omit<RoutedPool, 'sending' | 'open'>; readonly past: readonly Past[] }
  >();

  put(pool: IpPool, nowMs: number): void {
    const { name } = pool.metadata;
    const before = this.#pools.get(name);
    const mode = modeOf(pool);
    const isChanged = before !== undefined && !sameMode(before.routed.mode, mode);
    const left = isChanged ? [replaced(before.routed.mode, nowMs)] : [];
    const past = [...left, ...(before?.past ?? [])].filter((each) => !sameMode(each.mode, mode));
    this.#pools.set(name, { routed: { pool, cidr: parseCidr(pool.spec.cidr), mode }, past });
  }

  delete(name: string): void {
    this.#pools.delete(name);
  }

  names(): readonly string[] {
    return [...this.#pools.keys()];
  }

  /** Expires replaced modes. Reports whether any expired. */
  expire(nowMs: number): boolean {
    let isAny = false;
    for (const [name, { routed, past }] of this.#pools) {
      const left = past.filter(({ untilMs }) => nowMs < untilMs + OPEN_MS).map((each) => aged(each, nowMs));
      if (left.length === past.length && left.every((each, at) => each === past[at])) continue;
      this.#pools.set(name, { routed, past: left });
      isAny = true;
    }
    return isAny;
  }

  list(): readonly RoutedPool[] {
    return [...this.#pools.values()].map(({ routed, past }) => ({
      ...routed,
      sending: sendingBy(routed.mode, past),
      open: [routed.mode, ...past.map(({ mode }) => mode)],
    }));
  }
}

/** A tunnel that was replaced goes on to be used at first. */
function replaced(mode: PoolMode, nowMs: number): Past {
  return { mode, untilMs: nowMs + LINGER_MS, hasStopped: false, isFirst: mode.kind !== 'bgp' };
}

/** Returns the same object unless it has changed. */
function aged(past: Past, nowMs: number): Past {
  const hasStopped = nowMs >= past.untilMs;
  const isFirst = past.isFirst && nowMs < past.untilMs - LINGER_MS + SETTLE_MS;
  return hasStopped === past.hasStopped && isFirst === past.isFirst ? past : { ...past, hasStopped, isFirst };
}

function sendingBy(mode: PoolMode, past: readonly Past[]): readonly PoolMode[] {
  const left = past.filter(({ hasStopped }) => !hasStopped);
  const [first, others] = [true, false].map((isFirst) => left.filter((each) => each.isFirst === isFirst));
  return [...(first ?? []).map((each) => each.mode), mode, ...(others ?? []).map((each) => each.mode)];
}

/** Reports whether packets for another node go through a tunnel, from a node whose address is in the subnet `here`. */
export function isTunnelled({ extent }: TunnelMode, here: Cidr, there: Address): boolean {
  return extent === 'Always' || !cidrContains(here, there);
}

export function modeOf({ spec }: IpPool): PoolMode {
  if (spec.vxlanMode !== 'Never') return { kind: 'vxlan', extent: spec.vxlanMode };
  if (spec.ipipMode !== 'Never') return { kind: 'ipip', extent: spec.ipipMode };
  return { kind: 'bgp' };
}

/** Reports whether packets may go from node to node without a tunnel. */
export function isDirect(mode: PoolMode): boolean {
  return mode.kind === 'bgp' || mode.extent === 'CrossSubnet';
}

/** Returns the tunnels from which packets for the pool's addresses may arrive. */
export function openTunnels({ open, cidr }: RoutedPool): readonly TunnelKind[] {
  return open.flatMap((mode) => (mode.kind === 'bgp' ? [] : tunnelKind(mode.kind, cidr.base.family)));
}

/** Reports whether BGP routes the pool's addresses (map: ann-routes). */
export function isByBgp(pool: RoutedPool): boolean {
  return pool.open.some(({ kind }) => kind === 'bgp');
}

function sameMode(a: PoolMode, b: PoolMode): boolean {
  return a.kind === b.kind && extentOf(a) === extentOf(b);
}

function extentOf(mode: PoolMode): string {
  return mode.kind === 'bgp' ? '' : mode.extent;
}
