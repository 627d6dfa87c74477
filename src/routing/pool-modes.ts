import type { IpPool } from '../model/ip-pool.ts';
import { type Cidr, parseCidr } from '../net/cidr.ts';
import { type TunnelKind, tunnelKind } from './tunnels.ts';

/** How packets for a pool's addresses travel between nodes. */
export type PoolMode =
  | { readonly kind: 'bgp' }
  | { readonly kind: 'vxlan' | 'ipip'; readonly extent: 'Always' | 'CrossSubnet' };

/** A pool with the mode it shall have, and those it had until a moment ago. */
export interface RoutedPool {
  readonly pool: IpPool;
  readonly cidr: Cidr;
  readonly mode: PoolMode;
  /** Modes that this node still sends by where the new one is not open yet. */
  readonly lingering: readonly PoolMode[];
  /** Modes that other nodes may still send by: what receives them stays. */
  readonly open: readonly PoolMode[];
}

/**
 * How long a mode stays in effect beside the one that replaces it. Nodes learn of the change one after the other, and
 * BGP needs time to spread routes: until then both ways must be open, or packets are lost.
 */
export const LINGER_MS = 30_000;
/** Nodes do not stop sending at the same moment: what receives stays for so long after this one has stopped. */
export const OPEN_MS = 10_000;

interface Past {
  readonly mode: PoolMode;
  /** Until when this node sends by it. */
  readonly untilMs: number;
  readonly hasStopped: boolean;
}

/** The pools of the cluster, by name, with the modes that linger. Times are of the monotonic clock. */
export class PoolModes {
  readonly #pools = new Map<
    string,
    { readonly routed: Omit<RoutedPool, 'lingering' | 'open'>; readonly past: readonly Past[] }
  >();

  put(pool: IpPool, nowMs: number): void {
    const { name } = pool.metadata;
    const before = this.#pools.get(name);
    const mode = modeOf(pool);
    const isChanged = before !== undefined && !sameMode(before.routed.mode, mode);
    const left = isChanged ? [{ mode: before.routed.mode, untilMs: nowMs + LINGER_MS, hasStopped: false }] : [];
    const past = [...left, ...(before?.past ?? [])].filter((each) => !sameMode(each.mode, mode));
    this.#pools.set(name, { routed: { pool, cidr: parseCidr(pool.spec.cidr), mode }, past });
  }

  delete(name: string): void {
    this.#pools.delete(name);
  }

  names(): readonly string[] {
    return [...this.#pools.keys()];
  }

  /** Ends what has lingered, or stayed open, for long enough; says whether there was any. */
  expire(nowMs: number): boolean {
    let isAny = false;
    for (const [name, { routed, past }] of this.#pools) {
      const left = past
        .filter(({ untilMs }) => nowMs < untilMs + OPEN_MS)
        .map((each) => (nowMs < each.untilMs ? each : { ...each, hasStopped: true }));
      const isSame = left.length === past.length && left.every((each, at) => each.hasStopped === past[at]?.hasStopped);
      if (isSame) continue;
      this.#pools.set(name, { routed, past: left });
      isAny = true;
    }
    return isAny;
  }

  list(): readonly RoutedPool[] {
    return [...this.#pools.values()].map(({ routed, past }) => ({
      ...routed,
      lingering: past.filter(({ hasStopped }) => !hasStopped).map(({ mode }) => mode),
      open: [routed.mode, ...past.map(({ mode }) => mode)],
    }));
  }
}

export function modeOf({ spec }: IpPool): PoolMode {
  if (spec.vxlanMode !== 'Never') return { kind: 'vxlan', extent: spec.vxlanMode };
  if (spec.ipipMode !== 'Never') return { kind: 'ipip', extent: spec.ipipMode };
  return { kind: 'bgp' };
}

/** Modes to send by, the one that shall be first. */
export function modesOf({ mode, lingering }: RoutedPool): readonly PoolMode[] {
  return [mode, ...lingering];
}

/** The tunnels by which packets for the pool's addresses may come. */
export function openTunnels({ open, cidr }: RoutedPool): readonly TunnelKind[] {
  return open.flatMap((mode) => (mode.kind === 'bgp' ? [] : tunnelKind(mode.kind, cidr.base.family)));
}

/** Addresses of the pool are reachable by BGP: specification, "Pod and namespace annotations", rule 7. */
export function isByBgp(pool: RoutedPool): boolean {
  return pool.open.some(({ kind }) => kind === 'bgp');
}

function sameMode(a: PoolMode, b: PoolMode): boolean {
  return a.kind === b.kind && extentOf(a) === extentOf(b);
}

function extentOf(mode: PoolMode): string {
  return mode.kind === 'bgp' ? '' : mode.extent;
}
