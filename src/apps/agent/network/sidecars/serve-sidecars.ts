import type { Socket } from 'node:net';
import { BackOff, type BackOffPolicy, type RetryPorts } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { Trigger } from '../../../../base/trigger.ts';
import { type DeclaredSidecar, isHanded } from '../../../../model/declared-sidecar.ts';
import { formatAddress } from '../../../../net/address.ts';
import { endpointName } from '../../../../model/workload-endpoint.ts';
import { FedSets } from '../../../../policy/feed/fed-sets.ts';
import type { FromSidecar, GuardProof, JudgedRequests } from '../../../../policy/feed/messages.ts';
import { SidecarFeed } from '../../../../policy/feed/sidecar-feed.ts';
import { FORMAT_1 } from '../../../../policy/feed/wire-rule.ts';
import { asksForRequests, requestPortsOf } from '../../../../policy/judge-request.ts';
import type { PolicyChange } from '../../../../policy/policy-change.ts';
import type { PolicyState } from '../../../../policy/policy-state.ts';
import type { TouchedPolicy } from '../../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../../policy/resolved-policy.ts';
import type { KeptGuards } from './kept-guards.ts';
import { type GuardState, PodGuard, type WantedProof } from './pod-guard.ts';
import { SidecarSession, type SidecarWelcome } from './sidecar-session.ts';

/** Interval at which the records of the node are listed, beside events of their folder. */
const LIST_MS = 10_000;
/** Changes of policies within this time are sent together. */
const COALESCE_MS = 10;
const LISTEN: BackOffPolicy = { firstMs: 100, maxMs: 5000 };
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
  readonly declared: DeclaredSidecar;
}

export interface ListedSidecars {
  readonly pods: readonly SidecarPod[];
  /** Whether every record could be read. What is missing in a list that is not complete may be there. */
  readonly isComplete: boolean;
}

export interface SidecarServerPorts extends RetryPorts {
  readonly log: Log;
  readonly node: string;
  /** Lists the pods with sidecars whose link exists. */
  readonly listPods: () => Promise<ListedSidecars>;
  /** Calls `onChange` when the list may have changed. */
  readonly watchPods: (onChange: () => void) => Disposable;
  /** Listens for sidecars in the network namespace behind the interface of a pod. @throws kernel/netns-invalid, EADDRINUSE */
  readonly listen: (interfaceName: string, onConnection: (socket: Socket) => void) => Disposable;
  readonly state: PolicyState;
  /** Resolves when no change is half in the state. */
  readonly whole: () => Promise<void>;
  /** Takes changes of guards into the state, and writes them to the kernel. */
  readonly useGuards: (changes: readonly PolicyChange[]) => void;
  readonly welcome: () => SidecarWelcome;
  readonly wantedProof: () => WantedProof;
  readonly kept: KeptGuards;
  readonly onRequests: (pod: string, requests: readonly JudgedRequests[]) => void;
}

/** What is known of one sidecar, for people. */
export interface ShownSidecar {
  readonly pod: string;
  /** Of the sidecar that is connected, else of the one that the pod declares. */
  readonly release: string;
  readonly state: GuardState;
  readonly ports: readonly number[];
  /** RFC 3339, since when the state is so. */
  readonly since: string;
  readonly proxy: string;
  readonly problems: readonly string[];
}

interface Served {
  readonly pod: SidecarPod;
  readonly guard: PodGuard;
  listener: Disposable | undefined;
  session: SidecarSession | undefined;
  feed: SidecarFeed | undefined;
  release: string;
  /** Since when the name in its namespace is taken, and why. */
  taken: { readonly sinceMs: number; readonly reason: string } | undefined;
  readonly backOff: BackOff;
  retryMs: number;
  state: GuardState;
  sinceMs: number;
  portsText: string;
}

/** Feeds the sidecars of the pods of a node, and has the kernel open what they are shown to guard. */
export class SidecarServer {
  readonly #ports: SidecarServerPorts;
  readonly #sets: FedSets;
  readonly #served = new Map<string, Served>();
  readonly #due = new Trigger();
  readonly #touched: TouchedPolicy[] = [];
  #settings = '';
  #isListDue = true;
  #listProblem: string | undefined;

  constructor(ports: SidecarServerPorts) {
    this.#ports = ports;
    this.#sets = new FedSets(ports.state);
  }

  /** Takes a change of the policies, which is sent soon. */
  noteTouched(touched: TouchedPolicy): void {
    if (this.#served.size === 0) return;
    this.#touched.push(touched);
    this.#due.set();
  }

  /** Tells sidecars of changed settings, which connections learn at their beginning. */
  renewSettings(): void {
    const text = JSON.stringify([this.#ports.welcome(), this.#ports.wantedProof()]);
    if (text === this.#settings) return;
    this.#settings = text;
    for (const { session } of this.#served.values()) session?.end('its settings have changed');
    this.#due.set();
  }

  show(): readonly ShownSidecar[] {
    const nowMs = this.#ports.clock.monotonic();
    return [...this.#served.values()].map((served) => ({
      pod: served.pod.pod,
      release: served.release === '' ? served.pod.declared.release : served.release,
      state: served.state,
      ports: this.#guardedPorts(served, nowMs),
      since: new Date(this.#ports.clock.now() - (nowMs - served.sinceMs)).toISOString(),
      proxy: served.guard.proof?.proxy ?? '',
      problems: this.#problemsOf(served, nowMs),
    }));
  }

  problems(): readonly string[] {
    const nowMs = this.#ports.clock.monotonic();
    const ofPods = [...this.#served.values()].flatMap((served) =>
      this.#asksFor(served)
        ? this.#problemsOf(served, nowMs).map((each) => `sidecar of ${served.pod.pod}: ${each}`)
        : [],
    );
    return this.#listProblem === undefined ? ofPods : [`sidecars: ${this.#listProblem}`, ...ofPods];
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#ports;
    using _watch = this.#ports.watchPods(() => {
      this.#isListDue = true;
      this.#due.set();
    });
    let listedMs = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      this.#due.clear();
      if (this.#isListDue || clock.monotonic() - listedMs >= LIST_MS) {
        this.#isListDue = false;
        await this.#list();
        listedMs = clock.monotonic();
      }
      await this.#ports.whole();
      this.#listen();
      this.#feed();
      this.#settle();
      const limitMs = this.#untilNextMs(listedMs + LIST_MS);
      await this.#due.wait(signal, { limitMs, clock });
      if (!signal.aborted) await clock.sleep(COALESCE_MS, signal).catch(() => undefined);
    }
    for (const served of this.#served.values()) this.#end(served);
  }

  async #list(): Promise<void> {
    const { clock, log, kept } = this.#ports;
    try {
      const listed = await this.#ports.listPods();
      const pods = new Map(listed.pods.map((pod) => [pod.handle, pod]));
      for (const [handle, served] of this.#served) {
        if (pods.has(handle) || !listed.isComplete) continue;
        this.#end(served);
        this.#served.delete(handle);
        this.#ports.useGuards([{ kind: 'guard', key: handle }]);
      }
      for (const pod of pods.values()) {
        if (this.#served.has(pod.handle)) continue;
        this.#served.set(pod.handle, {
          pod,
          guard: new PodGuard(pod.declared, kept.of(pod.handle)),
          listener: undefined,
          session: undefined,
          feed: undefined,
          release: '',
          taken: undefined,
          backOff: new BackOff(this.#ports, LISTEN),
          retryMs: 0,
          state: 'waiting',
          sinceMs: clock.monotonic(),
          portsText: '',
        });
      }
      this.#listProblem = undefined;
    } catch (cause) {
      if (this.#listProblem === undefined) log.warning('pods with sidecars not listed', { reason: reasonOf(cause) });
      this.#listProblem = reasonOf(cause);
    }
  }

  /** A name may be taken by the agent before this one, or by a process of the pod. */
  #listen(): void {
    const { clock, random, log } = this.#ports;
    for (const served of this.#served.values()) {
      if (served.listener !== undefined || clock.monotonic() < served.retryMs) continue;
      const { interfaceName } = this.#endpointOf(served.pod) ?? {};
      if (interfaceName === undefined) continue;
      try {
        served.listener = this.#ports.listen(interfaceName, (socket) => this.#accept(served, socket));
        served.taken = undefined;
      } catch (cause) {
        const reason = reasonOf(cause);
        if (served.taken === undefined) log.info('sidecar not reachable yet', { pod: served.pod.pod, reason });
        served.taken ??= { sinceMs: clock.monotonic(), reason };
        const failures = served.backOff.fail(cause);
        const waitMs = Math.min(LISTEN.maxMs, LISTEN.firstMs * 2 ** (failures - 1));
        served.retryMs = clock.monotonic() + waitMs / 2 + random.int(Math.ceil(waitMs / 2));
      }
    }
  }

  /** The first that connects is believed until it ends: another one of the pod cannot take its place. */
  #accept(served: Served, socket: Socket): void {
    if (served.session !== undefined) {
      socket.destroy();
      return;
    }
    const { clock, state, log } = this.#ports;
    const session: SidecarSession = new SidecarSession(socket, {
      welcome: this.#ports.welcome,
      onHello: (release) => {
        served.release = release;
        served.guard.connected();
        served.feed = new SidecarFeed(state, this.#sets, { pod: this.#keyOf(served.pod), known: FORMAT_1 });
        this.#due.set();
      },
      onMessage: (message) => this.#take(served, message),
      onEnd: (reason) => {
        if (served.session !== session) return;
        if (reason !== undefined) log.warning('connection of a sidecar ended', { pod: served.pod.pod, reason });
        if (served.feed !== undefined) served.guard.lost(clock.monotonic(), this.#ports.wantedProof());
        served.session = undefined;
        served.feed = undefined;
        this.#due.set();
      },
    });
    served.session = session;
  }

  #take(served: Served, message: Exclude<FromSidecar, { type: 'hello' }>): void {
    if (message.type === 'requests') return this.#ports.onRequests(served.pod.pod, message.requests);
    if (message.type === 'applied') served.guard.applied(message.generation);
    else this.#prove(served, message.proof);
    this.#due.set();
    return undefined;
  }

  #prove(served: Served, proof: GuardProof): void {
    served.guard.proved(proof);
    this.#ports.kept.put(served.pod.handle, proof);
  }

  /** Tells each sidecar what has changed for it. */
  #feed(): void {
    const { clock } = this.#ports;
    const touched = this.#touched.splice(0);
    const changed = touched.map((each) => this.#sets.update(each));
    for (const served of this.#served.values()) {
      const { feed, session, guard } = served;
      if (feed === undefined || session === undefined) continue;
      const isFirst = !feed.hasBegun;
      const isTouched = touched.some((each, at) => feed.isTouched(each, changed[at] ?? new Set()));
      if (!isFirst && !isTouched) continue;
      const parts = feed.next();
      if (parts.length > 0) guard.sent(session.send(parts), clock.monotonic());
    }
    this.#sets.retain(new Set([...this.#served.values()].flatMap(({ feed }) => [...(feed?.setKeys ?? [])])));
  }

  /** Has the kernel open what is guarded now. */
  #settle(): void {
    const { clock, log } = this.#ports;
    const nowMs = clock.monotonic();
    const changes: PolicyChange[] = [];
    for (const served of this.#served.values()) {
      const addresses = this.#endpointOf(served.pod)?.addresses ?? [];
      const ports = this.#guardedPorts(served, nowMs);
      const value = ports.flatMap((port) => addresses.map((address) => ({ address, port })));
      const text = JSON.stringify([ports, addresses.map(formatAddress)]);
      if (text !== served.portsText) changes.push({ kind: 'guard', key: served.pod.handle, value });
      served.portsText = text;
      const after = served.guard.stateAt(nowMs, this.#ports.wantedProof());
      if (after === served.state) continue;
      served.state = after;
      served.sinceMs = nowMs;
      log.info('guard of a pod changed', { pod: served.pod.pod, state: after, ports: ports.map(String) });
    }
    if (changes.length > 0) this.#ports.useGuards(changes);
  }

  /** Ports that rules about requests name, and those of its containers: others have no element, and stay closed. */
  #guardedPorts(served: Served, nowMs: number): readonly number[] {
    const endpoint = this.#endpointOf(served.pod);
    if (endpoint === undefined) return [];
    const candidates = requestPortsOf(this.#ports.state, endpoint);
    return served.guard.portsAt(nowMs, this.#ports.wantedProof(), candidates);
  }

  #asksFor(served: Served): boolean {
    const endpoint = this.#endpointOf(served.pod);
    return endpoint !== undefined && asksForRequests(this.#ports.state, endpoint);
  }

  #problemsOf(served: Served, nowMs: number): readonly string[] {
    const { guard, taken, feed, state } = served;
    const isTaken = taken !== undefined && nowMs - taken.sinceMs >= TAKEN_MS;
    return [
      ...(isTaken ? [`no socket for it in the pod: ${taken.reason}`] : []),
      ...(state === 'unproven' ? (guard.proof?.problems ?? ['it does not apply policies in time']) : []),
      ...this.#openPorts(served, nowMs),
      ...[...(feed?.left ?? [])].map(
        (place) => `${place} needs a newer sidecar, and allows nothing here: restart the pod`,
      ),
    ];
  }

  /** Ports that rules about requests name, and do not open. */
  #openPorts(served: Served, nowMs: number): readonly string[] {
    const endpoint = this.#endpointOf(served.pod);
    const { proof } = served.guard;
    if (endpoint === undefined || served.state !== 'guarding' || proof === undefined) return [];
    const guarded = this.#guardedPorts(served, nowMs);
    const wanted = [...requestPortsOf(this.#ports.state, endpoint)].filter((port) => !guarded.includes(port));
    return wanted.map((port) => {
      const isOutside = !isHanded(served.pod.declared, port);
      const known = proof.open.find((each) => each.port === port)?.why;
      const why = isOutside
        ? 'the proxy is not handed it'
        : (known ?? 'the proxy has no way of its own for it: no Service has it');
      return `port ${String(port)} stays closed to rules with http: ${why}`;
    });
  }

  #untilNextMs(listMs: number): number {
    const nowMs = this.#ports.clock.monotonic();
    const times = [...this.#served.values()].flatMap(({ guard, listener, retryMs }) => [
      guard.nextChangeMs(nowMs) ?? listMs,
      ...(listener === undefined && retryMs > nowMs ? [retryMs] : []),
    ]);
    return Math.max(1, Math.min(listMs, ...times) - nowMs);
  }

  #end(served: Served): void {
    served.listener?.[Symbol.dispose]();
    served.listener = undefined;
    served.session?.end();
  }

  #endpointOf(pod: SidecarPod): PolicyEndpoint | undefined {
    return this.#ports.state.endpoints.get(this.#keyOf(pod));
  }

  #keyOf({ pod, ifName }: SidecarPod): string {
    const [namespace = '', workload = ''] = pod.split('/');
    const { node } = this.#ports;
    const name = endpointName({ node, orchestrator: 'orch', workload, endpoint: ifName });
    return `pod ${namespace}/${name}`;
  }
}
