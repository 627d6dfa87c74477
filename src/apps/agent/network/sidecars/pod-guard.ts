import { type DeclaredSidecar, isHanded } from '../../../../model/declared-sidecar.ts';
import { FAMILIES, type Family } from '../../../../net/address.ts';
import type { GuardProof } from '../../../../policy/feed/messages.ts';

/** A sidecar that has not applied a generation after this time is too far behind to be believed. */
const BEHIND_MS = 5000;
/** After a connection was lost: the proxy answers 503 itself meanwhile, and a sidecar that restarts is back sooner. */
const LAPSE_MS = 10_000;
/** Of one pod, so that what a proxy shows does not fill the kernel. */
const MOST_PORTS = 256;

export type GuardState = 'waiting' | 'unproven' | 'guarding' | 'lapsed';

/** When a port opens: when the proxy's configuration shows the check, or when the sidecar runs. */
export type WantedProof = 'Filter' | 'Connected';

/** What rules about requests may open. */
export interface Guarded {
  readonly ports: readonly number[];
  readonly families: readonly Family[];
}

/** What was guarded when the connection was lost. */
export interface LostGuard extends Guarded {
  readonly lostMs: number;
}

const NOTHING: Guarded = { ports: [], families: [] };

/** What is known of the check in one pod, and so which of its ports rules about requests may open. */
export class PodGuard {
  readonly #declared: DeclaredSidecar;
  #proof: GuardProof | undefined;
  /** Each generation that is not applied yet: when it was sent, and whether requests are judged by it. */
  readonly #unapplied = new Map<number, { readonly sentMs: number; readonly asks: boolean }>();
  #isConnected = false;
  #hasApplied = false;
  #isAsking = false;
  #before: LostGuard | undefined;

  /** `before` is what an earlier agent knew. */
  constructor(declared: DeclaredSidecar, before?: LostGuard) {
    this.#declared = declared;
    this.#before = before;
  }

  /** What the proxy has shown; undefined when it has not. */
  get proof(): GuardProof | undefined {
    return this.#proof;
  }

  connected(): void {
    this.#isConnected = true;
    this.#hasApplied = false;
    this.#isAsking = false;
    this.#proof = undefined;
    this.#unapplied.clear();
  }

  sent(generation: number, { nowMs, asks }: { readonly nowMs: number; readonly asks: boolean }): void {
    this.#unapplied.set(generation, { sentMs: nowMs, asks });
  }

  /** Generations are applied in order. */
  applied(generation: number): void {
    for (const [sent, { asks }] of this.#unapplied) {
      if (sent > generation) continue;
      this.#hasApplied = true;
      this.#isAsking = asks;
      this.#unapplied.delete(sent);
    }
  }

  proved(proof: GuardProof): void {
    this.#proof = proof;
  }

  lost(nowMs: number, wanted: WantedProof, candidates: Iterable<number>): void {
    // One that comes back, and is lost again before it has shown anything, does not gain time.
    if (this.stateAt(nowMs, wanted) === 'guarding')
      this.#before = { ...this.guardedAt(nowMs, wanted, candidates), lostMs: nowMs };
    this.#isConnected = false;
  }

  stateAt(nowMs: number, wanted: WantedProof): GuardState {
    if (this.#isConnected && this.#hasApplied) {
      if (this.#isBehind(nowMs)) return 'unproven';
      if (wanted === 'Connected' || (this.#proof !== undefined && this.#proof.ports.length > 0)) return 'guarding';
      return this.#proof === undefined && this.#isCarriedOver(nowMs) ? 'lapsed' : 'unproven';
    }
    return this.#isCarriedOver(nowMs) ? 'lapsed' : 'waiting';
  }

  /** Returns what is guarded: what the proxy has shown, or the candidates where no proof is wanted. */
  guardedAt(nowMs: number, wanted: WantedProof, candidates: Iterable<number>): Guarded {
    const state = this.stateAt(nowMs, wanted);
    const isUnasked = this.#isConnected && this.#hasApplied && !this.#isAsking;
    if (isUnasked || (state !== 'guarding' && state !== 'lapsed')) return NOTHING;
    const shown = state === 'lapsed' ? this.#before : wanted === 'Filter' ? this.#proof : undefined;
    const { ports, families } = shown ?? { ports: [...candidates], families: FAMILIES };
    const handed = ports.filter((port) => isHanded(this.#declared, port)).toSorted((a, b) => a - b);
    return { ports: handed.slice(0, MOST_PORTS), families };
  }

  /** Returns when the state changes without a further event; undefined when it does not. */
  nextChangeMs(nowMs: number): number | undefined {
    const [oldest] = this.#unapplied.values();
    const times = [
      ...(this.#before === undefined ? [] : [this.#before.lostMs + LAPSE_MS]),
      ...(this.#isConnected && oldest !== undefined ? [oldest.sentMs + BEHIND_MS] : []),
    ].filter((time) => time > nowMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  #isBehind(nowMs: number): boolean {
    const [oldest] = this.#unapplied.values();
    return oldest !== undefined && nowMs - oldest.sentMs >= BEHIND_MS;
  }

  /** A sidecar that comes back keeps what it guarded until it has shown it again. */
  #isCarriedOver(nowMs: number): boolean {
    return this.#before !== undefined && nowMs - this.#before.lostMs < LAPSE_MS;
  }
}
