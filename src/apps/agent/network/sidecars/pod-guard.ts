import { type DeclaredSidecar, isHanded } from '../../../../model/declared-sidecar.ts';
import type { GuardProof } from '../../../../policy/feed/messages.ts';

/** A sidecar that has not applied a generation after this time is too far behind to be believed. */
const BEHIND_MS = 5000;
/** After a connection was lost: the proxy answers 503 itself meanwhile, and a sidecar that restarts is back sooner. */
const LAPSE_MS = 10_000;

export type GuardState = 'waiting' | 'unproven' | 'guarding' | 'lapsed';

/** When a port opens: when the proxy's configuration shows the check, or when the sidecar runs. */
export type WantedProof = 'Filter' | 'Connected';

/** What is known of the check in one pod, and so which of its ports rules about requests may open. */
export class PodGuard {
  readonly #declared: DeclaredSidecar;
  #proof: GuardProof | undefined;
  /** When each generation that is not applied yet was sent. */
  readonly #unapplied = new Map<number, number>();
  #isConnected = false;
  #hasApplied = false;
  #lostMs: number | undefined;
  /** What the ports were when the connection was lost. */
  #before: { readonly proof: GuardProof | undefined; readonly wasGuarding: boolean } | undefined;

  /** `before` is what an earlier agent knew, since when its connection counts as lost. */
  constructor(declared: DeclaredSidecar, before?: { readonly proof: GuardProof; readonly lostMs: number }) {
    this.#declared = declared;
    if (before === undefined) return;
    this.#before = { proof: before.proof, wasGuarding: true };
    this.#lostMs = before.lostMs;
  }

  /** What the proxy has shown; undefined when it has not, or that is too long ago. */
  get proof(): GuardProof | undefined {
    return this.#isConnected ? this.#proof : this.#before?.proof;
  }

  connected(): void {
    this.#isConnected = true;
    this.#hasApplied = false;
    this.#proof = undefined;
    this.#unapplied.clear();
  }

  sent(generation: number, nowMs: number): void {
    this.#unapplied.set(generation, nowMs);
  }

  /** Generations are applied in order. */
  applied(generation: number): void {
    this.#hasApplied = true;
    for (const sent of this.#unapplied.keys()) if (sent <= generation) this.#unapplied.delete(sent);
  }

  proved(proof: GuardProof): void {
    this.#proof = proof;
  }

  lost(nowMs: number, proof: WantedProof): void {
    this.#before = { proof: this.#proof, wasGuarding: this.stateAt(nowMs, proof) === 'guarding' };
    this.#isConnected = false;
    this.#lostMs = nowMs;
  }

  stateAt(nowMs: number, wanted: WantedProof): GuardState {
    if (this.#isConnected && this.#hasApplied) {
      if (this.#isBehind(nowMs)) return 'unproven';
      if (wanted === 'Connected' || isShown(this.#proof)) return 'guarding';
      return this.#proof === undefined && this.#carriedOver(nowMs) ? 'lapsed' : 'unproven';
    }
    return this.#carriedOver(nowMs) ? 'lapsed' : 'waiting';
  }

  /** Returns the ports that are guarded: those that the proxy has shown, or the candidates where no proof is wanted. */
  portsAt(nowMs: number, wanted: WantedProof, candidates: Iterable<number>): readonly number[] {
    const state = this.stateAt(nowMs, wanted);
    if (state !== 'guarding' && state !== 'lapsed') return [];
    const shown = state === 'guarding' && this.#isConnected ? this.#proof : this.#before?.proof;
    const ports = wanted === 'Connected' ? [...candidates] : (shown?.ports ?? []);
    return ports.filter((port) => isHanded(this.#declared, port)).toSorted((a, b) => a - b);
  }

  /** Returns when the state changes without a further event; undefined when it does not. */
  nextChangeMs(nowMs: number): number | undefined {
    const [oldest] = this.#unapplied.values();
    const times = [
      ...(this.#lostMs === undefined ? [] : [this.#lostMs + LAPSE_MS]),
      ...(this.#isConnected && oldest !== undefined ? [oldest + BEHIND_MS] : []),
    ].filter((time) => time > nowMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  #isBehind(nowMs: number): boolean {
    const [oldest = Number.POSITIVE_INFINITY] = this.#unapplied.values();
    return nowMs - oldest >= BEHIND_MS;
  }

  /** A sidecar that comes back keeps what it guarded until it has shown it again. */
  #carriedOver(nowMs: number): boolean {
    return this.#before?.wasGuarding === true && nowMs - (this.#lostMs ?? 0) < LAPSE_MS;
  }
}

function isShown(proof: GuardProof | undefined): boolean {
  return proof !== undefined && proof.ports.length > 0;
}
