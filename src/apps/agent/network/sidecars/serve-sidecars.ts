import type { Socket } from 'node:net';
import { type BackOffPolicy, backOffMs, type RetryPorts } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { Trigger } from '../../../../base/trigger.ts';
import { formatAddress, sameAddress } from '../../../../net/address.ts';
import { FedSets } from '../../../../policy/feed/fed-sets.ts';
import type { FromSidecar, JudgedRequests } from '../../../../policy/feed/messages.ts';
import { SidecarFeed } from '../../../../policy/feed/sidecar-feed.ts';
import { FORMAT_1 } from '../../../../policy/feed/wire-rule.ts';
import type { PolicyChange } from '../../../../policy/policy-change.ts';
import type { PolicyState } from '../../../../policy/policy-state.ts';
import type { TouchedPolicy } from '../../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../../policy/resolved-policy.ts';
import type { SidecarGauges } from '../../network-gauges.ts';
import type { KeptGuards } from './kept-guards.ts';
import type { Guarded, GuardState, WantedProof } from './pod-guard.ts';
import { ServedSidecar, type SidecarPod } from './served-sidecar.ts';
import { SidecarSession, type SidecarWelcome } from './sidecar-session.ts';

/** Interval at which the records of the node are listed, beside events of their folder. */
const LIST_MS = 10_000;
/** Changes of policies within this time are sent together, and after the first ones less often. */
const COALESCE_MS = 10;
const PAUSE_MS = 50;
/** How often a proxy may show something else: each time the kernel is written. */
const PROOF_MS = 1000;
/** How often listening in a pod is tried. */
const LISTEN: BackOffPolicy = { firstMs: 100, maxMs: 5000 };
/** How often it is said why connections of a pod end. */
const SAY_MS = 60_000;
const MOST_REASON = 200;

export interface ListedSidecars {
  readonly pods: readonly SidecarPod[];
  /** Whether every record could be read. What is missing in a list that is not complete may be there. */
  readonly isComplete: boolean;
  /** Names of the links of all pods. */
  readonly attached: ReadonlySet<string>;
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
  /** Resolves when all policies have been read once. Before that no pod seems to have rules. */
  readonly policiesRead: Promise<void>;
  /** Resolves when no change is half in the state. */
  readonly whole: () => Promise<void>;
  /** Takes changes of guards into the state, and writes them to the kernel. */
  readonly useGuards: (changes: readonly PolicyChange[]) => void;
  readonly welcome: () => SidecarWelcome;
  readonly wantedProof: () => WantedProof;
  readonly kept: KeptGuards;
  readonly onRequests: (endpoint: PolicyEndpoint, requests: readonly JudgedRequests[]) => void;
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

/** Feeds the sidecars of the pods of a node, and has the kernel open what they are shown to guard. */
export class SidecarServer {
  readonly #ports: SidecarServerPorts;
  readonly #sets: FedSets;
  readonly #served = new Map<string, ServedSidecar>();
  readonly #due = new Trigger();
  readonly #touched: TouchedPolicy[] = [];
  readonly #known = Promise.withResolvers<void>();
  #settings = '';
  #isListDue = true;
  #listProblem: string | undefined;

  constructor(ports: SidecarServerPorts) {
    this.#ports = ports;
    this.#sets = new FedSets(ports.state);
    ports.state.follow((touched) => this.#noteTouched(touched));
  }

  /** Resolves when what sidecars guarded for an earlier agent is in the state. */
  get guardsKnown(): Promise<void> {
    return this.#known.promise;
  }

  /** Takes a change of the policies, which is sent soon. */
  #noteTouched(touched: TouchedPolicy): void {
    if (this.#served.size === 0) return;
    this.#touched.push(touched);
    this.#due.set();
  }

  /** Tells sidecars of changed settings, which connections learn at their beginning. */
  renewSettings(): void {
    const text = this.#settingsText();
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
      ports: served.guardedAt(nowMs).ports,
      since: new Date(this.#ports.clock.now() - (nowMs - served.sinceMs)).toISOString(),
      proxy: served.guard.proof?.proxy ?? '',
      problems: served.problemsAt(nowMs),
    }));
  }

  standing(): SidecarGauges {
    const all = [...this.#served.values()];
    const nowMs = this.#ports.clock.monotonic();
    const states = { waiting: 0, unproven: 0, guarding: 0, lapsed: 0 };
    for (const { state } of all) states[state] += 1;
    return {
      states,
      closed: all.filter((served) => served.isAsked && served.guardedAt(nowMs).ports.length === 0).length,
    };
  }

  problems(): readonly string[] {
    const nowMs = this.#ports.clock.monotonic();
    const ofPods = [...this.#served.values()].flatMap((served) =>
      served.isAsked ? served.problemsAt(nowMs).map((each) => `sidecar of ${served.pod.pod}: ${each}`) : [],
    );
    return this.#listProblem === undefined ? ofPods : [`sidecars: ${this.#listProblem}`, ...ofPods];
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, policiesRead } = this.#ports;
    signal.addEventListener('abort', () => this.#known.resolve(), { once: true });
    await Promise.race([policiesRead, this.#known.promise]);
    this.#settings = this.#settingsText();
    using _watch = this.#ports.watchPods(() => {
      this.#isListDue = true;
      this.#due.set();
    });
    let listedMs = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      const startMs = clock.monotonic();
      this.#due.clear();
      if (this.#isListDue || clock.monotonic() - listedMs >= LIST_MS) {
        this.#isListDue = false;
        await this.#list();
        listedMs = clock.monotonic();
      }
      await this.#ports.whole();
      this.#listen();
      this.#feed();
      this.#prove();
      this.#settle();
      this.#known.resolve();
      const limitMs = this.#untilNextMs(listedMs + LIST_MS);
      await this.#due.wait(signal, { limitMs, clock });
      const pauseMs = clock.monotonic() - startMs < PAUSE_MS ? PAUSE_MS : COALESCE_MS;
      if (!signal.aborted) await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
    for (const served of this.#served.values()) this.#end(served);
  }

  async #list(): Promise<void> {
    const { log } = this.#ports;
    try {
      const listed = await this.#ports.listPods();
      const pods = new Map(listed.pods.map((pod) => [pod.handle, pod]));
      for (const [handle, served] of this.#served) {
        const isThere = pods.has(handle) || (!listed.isComplete && listed.attached.has(served.pod.linkName));
        if (isThere) continue;
        this.#end(served);
        this.#served.delete(handle);
        this.#ports.useGuards([{ kind: 'guard', key: handle }]);
      }
      for (const pod of pods.values()) {
        if (this.#served.has(pod.handle)) continue;
        this.#served.set(pod.handle, new ServedSidecar(pod, this.#ports));
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
      if (served.endpoint === undefined) continue;
      try {
        served.listener = this.#ports.listen(served.pod.linkName, (socket) => this.#accept(served, socket));
        served.taken = undefined;
      } catch (cause) {
        const reason = reasonOf(cause);
        if (served.taken === undefined) log.info('sidecar not reachable yet', { pod: served.pod.pod, reason });
        served.taken ??= { sinceMs: clock.monotonic(), reason };
        served.failures += 1;
        served.retryMs = clock.monotonic() + backOffMs(LISTEN, { failures: served.failures }, random);
      }
    }
  }

  /** The first that connects is believed until it ends: another one of the pod cannot take its place. */
  #accept(served: ServedSidecar, socket: Socket): void {
    const { clock, state, log } = this.#ports;
    const { limits } = served;
    if (served.session !== undefined || !limits.mayBegin(clock.monotonic())) {
      socket.destroy();
      return;
    }
    limits.began(clock.monotonic());
    const session: SidecarSession = new SidecarSession(socket, {
      welcome: this.#ports.welcome,
      count: () => limits.count(clock.monotonic()),
      onHello: (release) => {
        served.release = release;
        served.guard.connected();
        served.feed = new SidecarFeed(state, this.#sets, { pod: served.key, known: FORMAT_1 });
        this.#due.set();
      },
      onMessage: (message) => this.#take(served, message),
      onEnd: (reason) => {
        if (served.session !== session) return;
        const nowMs = clock.monotonic();
        limits.ended(nowMs);
        if (reason !== undefined && nowMs - served.saidMs >= SAY_MS) {
          served.saidMs = nowMs;
          log.warning('connection of a sidecar ended', { pod: served.pod.pod, reason: reason.slice(0, MOST_REASON) });
        }
        if (served.feed !== undefined) served.guard.lost(nowMs, this.#ports.wantedProof(), served.candidates);
        served.session = undefined;
        served.feed = undefined;
        served.proof = undefined;
        this.#due.set();
      },
    });
    served.session = session;
  }

  #take(served: ServedSidecar, message: Exclude<FromSidecar, { type: 'hello' }>): void {
    if (message.type === 'requests') {
      const endpoint = served.endpoint;
      if (endpoint !== undefined) this.#ports.onRequests(endpoint, message.requests);
      return;
    }
    if (message.type === 'applied') served.guard.applied(message.generation);
    else served.proof = message.proof;
    this.#due.set();
  }

  /** Uses what proxies have shown. */
  #prove(): void {
    const nowMs = this.#ports.clock.monotonic();
    for (const served of this.#served.values()) {
      const { proof, provedMs, guard } = served;
      if (proof === undefined || nowMs - provedMs < PROOF_MS) continue;
      served.proof = undefined;
      served.provedMs = nowMs;
      guard.proved(proof);
    }
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
      if (parts.length > 0) guard.sent(session.send(parts), { nowMs: clock.monotonic(), asks: feed.asks });
    }
    this.#sets.retain(new Set([...this.#served.values()].flatMap(({ feed }) => [...(feed?.setKeys ?? [])])));
  }

  /** Has the kernel open what is guarded now. */
  #settle(): void {
    const { clock, log, kept } = this.#ports;
    const nowMs = clock.monotonic();
    const changes: PolicyChange[] = [];
    const guards = new Map<string, Guarded>();
    for (const served of this.#served.values()) {
      const guarded = served.guardedAt(nowMs);
      const { ports, families } = guarded;
      if (ports.length > 0) guards.set(served.pod.handle, guarded);
      const own = (served.endpoint?.addresses ?? []).filter(
        (address) =>
          families.includes(address.family) && served.pod.addresses.some((each) => sameAddress(each, address)),
      );
      const value = ports.flatMap((port) => own.map((address) => ({ address, port })));
      const text = JSON.stringify([ports, own.map(formatAddress)]);
      if (text !== served.openText) changes.push({ kind: 'guard', key: served.pod.handle, value });
      served.openText = text;
      const after = served.guard.stateAt(nowMs, this.#ports.wantedProof());
      if (after === served.state) continue;
      served.state = after;
      served.sinceMs = nowMs;
      log.info('guard of a pod changed', { pod: served.pod.pod, state: after, ports: ports.map(String) });
    }
    kept.replace(guards);
    if (changes.length > 0) this.#ports.useGuards(changes);
  }

  #settingsText(): string {
    return JSON.stringify([this.#ports.welcome(), this.#ports.wantedProof()]);
  }

  #untilNextMs(listMs: number): number {
    const nowMs = this.#ports.clock.monotonic();
    const times = [...this.#served.values()].flatMap(({ guard, listener, retryMs, proof, provedMs }) => [
      guard.nextChangeMs(nowMs) ?? listMs,
      ...(proof === undefined ? [] : [provedMs + PROOF_MS]),
      ...(listener === undefined && retryMs > nowMs ? [retryMs] : []),
    ]);
    return Math.max(1, Math.min(listMs, ...times) - nowMs);
  }

  #end(served: ServedSidecar): void {
    served.listener?.[Symbol.dispose]();
    served.listener = undefined;
    served.session?.end();
  }
}
