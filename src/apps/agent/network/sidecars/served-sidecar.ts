import type { Clock } from '../../../../base/clock.ts';
import { type DeclaredSidecar, isHanded } from '../../../../model/declared-sidecar.ts';
import { endpointName } from '../../../../model/workload-endpoint.ts';
import { type Address, FAMILIES } from '../../../../net/address.ts';
import type { GuardProof } from '../../../../policy/feed/messages.ts';
import type { SidecarFeed } from '../../../../policy/feed/sidecar-feed.ts';
import { asksForRequests, requestPortsOf } from '../../../../policy/judge-request.ts';
import type { PolicyView } from '../../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../../policy/resolved-policy.ts';
import type { KeptGuards } from './kept-guards.ts';
import { type Guarded, type GuardState, PodGuard, type WantedProof } from './pod-guard.ts';
import { SidecarLimits } from './sidecar-limits.ts';
import type { SidecarSession } from './sidecar-session.ts';

/** A name that is taken for longer is a problem: the agent before this one has it no more. */
const TAKEN_MS = 10_000;

/** A pod of the node that declares a sidecar. */
export interface SidecarPod {
  /** Handle of its attachment. */
  readonly handle: string;
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  /** Interface inside the pod. */
  readonly ifName: string;
  /** Name of its link on the host, and its addresses, as ADD gave them: no record that users can write says so. */
  readonly linkName: string;
  readonly addresses: readonly Address[];
  readonly declared: DeclaredSidecar;
}

interface ServedPorts {
  readonly clock: Clock;
  readonly node: string;
  readonly state: PolicyView;
  readonly wantedProof: () => WantedProof;
  readonly kept: KeptGuards;
}

/** A pod with a sidecar, and what is known of the two. */
export class ServedSidecar {
  readonly pod: SidecarPod;
  /** Of its endpoint. */
  readonly key: string;
  readonly guard: PodGuard;
  readonly limits = new SidecarLimits();
  listener: Disposable | undefined;
  session: SidecarSession | undefined;
  feed: SidecarFeed | undefined;
  release = '';
  /** Since when the name in its namespace is taken, and why. */
  taken: { readonly sinceMs: number; readonly reason: string } | undefined;
  /** How often listening has failed, and when it is tried again. */
  failures = 0;
  retryMs = 0;
  /** What the proxy has shown, and is not used yet. */
  proof: GuardProof | undefined;
  provedMs = Number.NEGATIVE_INFINITY;
  /** When it was said last why a connection ended. */
  saidMs = Number.NEGATIVE_INFINITY;
  state: GuardState = 'waiting';
  sinceMs: number;
  /** What the kernel opens. */
  openText = '';
  readonly #ports: ServedPorts;

  constructor(pod: SidecarPod, ports: ServedPorts) {
    const [namespace = '', workload = ''] = pod.pod.split('/');
    const name = endpointName({ node: ports.node, orchestrator: 'orch', workload, endpoint: pod.ifName });
    this.#ports = ports;
    this.pod = pod;
    this.key = `pod ${namespace}/${name}`;
    this.guard = new PodGuard(pod.declared, ports.kept.of(pod.handle));
    this.sinceMs = ports.clock.monotonic();
  }

  /** Of this sandbox: a pod of the same name may have another one now. */
  get endpoint(): PolicyEndpoint | undefined {
    const endpoint = this.#ports.state.endpoints.get(this.key);
    return endpoint?.interfaceName === this.pod.linkName ? endpoint : undefined;
  }

  /** Whether a rule is about requests. */
  get isAsked(): boolean {
    const { endpoint } = this;
    return endpoint !== undefined && asksForRequests(this.#ports.state, endpoint);
  }

  /** Ports that rules about requests could open: those that its containers declare, and others that the rules name. */
  get candidates(): ReadonlySet<number> {
    const { endpoint } = this;
    return endpoint === undefined ? new Set() : requestPortsOf(this.#ports.state, endpoint);
  }

  guardedAt(nowMs: number): Guarded {
    const wanted = this.#ports.wantedProof();
    // Only where the proxy shows nothing they count, and all rules have to be read for them.
    return this.guard.guardedAt(nowMs, wanted, wanted === 'Connected' ? this.candidates : []);
  }

  problemsAt(nowMs: number): readonly string[] {
    const { guard, taken, feed, state } = this;
    const isTaken = taken !== undefined && nowMs - taken.sinceMs >= TAKEN_MS;
    return [
      ...(isTaken ? [`no socket for it in the pod: ${taken.reason}`] : []),
      ...(state === 'unproven' ? (guard.proof?.problems ?? ['it does not apply policies in time']) : []),
      ...this.#closedParts(nowMs),
      ...[...(feed?.left ?? [])].map(
        (place) => `${place} needs a newer sidecar, and allows nothing here: restart the pod`,
      ),
    ];
  }

  /** What rules about requests name, and do not open. */
  #closedParts(nowMs: number): readonly string[] {
    const { endpoint, candidates } = this;
    const { proof } = this.guard;
    if (endpoint === undefined || this.state !== 'guarding' || proof === undefined) return [];
    const guarded = this.guardedAt(nowMs).ports;
    const families = FAMILIES.filter(
      (family) => !proof.families.includes(family) && endpoint.addresses.some((address) => address.family === family),
    );
    return [
      ...(guarded.length === 0 ? [] : families).map(
        (family) => `IPv${String(family)} addresses stay closed to rules with http: the proxy receives none of them`,
      ),
      ...[...candidates]
        .filter((port) => !guarded.includes(port))
        .map((port) => `port ${String(port)} stays closed to rules with http: ${this.#whyClosed(port, proof)}`),
    ];
  }

  #whyClosed(port: number, proof: GuardProof): string {
    if (!isHanded(this.pod.declared, port)) return 'the proxy is not handed it';
    const known = proof.open.find((each) => each.port === port)?.why;
    return known ?? 'the proxy has no way of its own for it: no Service has it';
  }
}
