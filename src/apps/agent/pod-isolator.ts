import type { Clock } from '../../base/clock.ts';
import type { Isolation, LeftBehind, PodIsolation, SandboxEndpoint } from '../../cni/pod-isolation.ts';
import type { Attachment } from '../../model/names.ts';
import { attachmentOf, endpointIdOf, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { FromNetwork, ToNetwork } from './network-channel.ts';

/** Time that an ADD waits until its policies are in force. Then it returns, and the pod stays closed until they are. */
const IN_FORCE_MS = 5000;
/** Time that a DEL waits until nothing matches the addresses any more. */
const RELEASE_MS = 1000;
/** Without a reason, one with a stack would be made each time. */
const ANSWERED = new Error('answered');

interface IsolatorPorts {
  readonly clock: Clock;
  /** `auto` switches policy on with the first pod whose configuration asks for it. */
  readonly setting: 'on' | 'off' | 'auto';
  /** Whether policies are enforced from the start. */
  readonly isOn: boolean;
  /** Reason why no policies are enforced with the setting `off`. */
  readonly offReason: string;
  /** Returns why policies must not be switched on for the pod yet; undefined when they may. */
  readonly findEndpointObstacle: (endpoint: WorkloadEndpoint, signal: AbortSignal) => Promise<string | undefined>;
  /** Takes elements out of the policies of the kernel. @throws kernel/failed */
  readonly withdraw: (left: LeftBehind, signal: AbortSignal) => Promise<void>;
  /** Returns why no pod can have its policies; undefined when pods can. */
  readonly findObstacle: (signal: AbortSignal) => Promise<string | undefined>;
}

type Send = (message: ToNetwork) => void;
type Answer = Extract<FromNetwork, { readonly kind: 'isolate' | 'release' }>;

/**
 * Asks the network process to enforce the policies of pods. It keeps the endpoints of the pods that it was asked for, and
 * passes them to each new network process, so that a crash of that process delays policies and fails no ADD.
 */
export class PodIsolator implements PodIsolation {
  readonly #ports: IsolatorPorts;
  readonly #endpoints = new Map<string, { readonly endpoint: WorkloadEndpoint; readonly addedAt: string }>();
  readonly #questions = new Map<number, (answer: Answer) => void>();
  /** The last question about each endpoint, whose answer a new process gives. */
  readonly #isolating = new Map<string, number>();
  #isOn: boolean;
  #lastId = 0;
  #send: Send | undefined;

  constructor(ports: IsolatorPorts) {
    this.#ports = ports;
    this.#isOn = ports.isOn;
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  async isolate(endpoint: WorkloadEndpoint, signal: AbortSignal): Promise<Isolation> {
    const { setting, offReason } = this.#ports;
    if (setting === 'off') return { state: 'not enforced', reason: offReason };
    const obstacle = this.#isOn ? undefined : await this.#ports.findEndpointObstacle(endpoint, signal);
    if (obstacle !== undefined) return { state: 'not enforced', reason: obstacle };
    this.#isOn = true;
    const key = keyOf(endpoint);
    const added = { endpoint, addedAt: new Date(this.#ports.clock.now()).toISOString() };
    this.#endpoints.set(key, added);
    const id = this.#nextId();
    this.#isolating.set(key, id);
    const answer = await this.#ask({ kind: 'isolate', id, ...added, isPast: false }, { limitMs: IN_FORCE_MS, signal });
    if (this.#isolating.get(key) === id) this.#isolating.delete(key);
    if (answer?.kind === 'isolate') return answer.isolation;
    const reason = this.#send === undefined ? 'the network process is down' : 'the network process is late';
    return { state: 'closed', reason };
  }

  async release(endpoint: SandboxEndpoint, signal: AbortSignal): Promise<boolean> {
    const key = keyOf(endpoint);
    const known = this.#endpoints.get(key)?.endpoint;
    const isNewer = known !== undefined && known.spec.containerID !== endpoint.spec.containerID;
    if (!isNewer) this.#endpoints.delete(key);
    // A process that is down reads the endpoints anew when it starts.
    if (this.#send === undefined) return false;
    const message = { kind: 'release', id: this.#nextId(), endpoint } as const;
    const answer = await this.#ask(message, { limitMs: RELEASE_MS, signal });
    // A process that is late removes it when it goes on.
    return answer?.kind === 'release' ? answer.isReleased : this.#send !== undefined;
  }

  async collect(isRemoved: (attachment: Attachment) => boolean, signal: AbortSignal): Promise<boolean> {
    const removed = [...this.#endpoints.values()].filter(({ endpoint }) => isRemoved(attachmentOf(endpoint)));
    const released = await Promise.all(removed.map(async ({ endpoint }) => this.release(endpoint, signal)));
    return this.#send !== undefined && released.every(Boolean);
  }

  async withdraw(left: LeftBehind, signal: AbortSignal): Promise<void> {
    await this.#ports.withdraw(left, signal);
  }

  async findObstacle(signal: AbortSignal): Promise<string | undefined> {
    return this.#ports.setting === 'off' ? undefined : this.#ports.findObstacle(signal);
  }

  /** A network process has started: passes it all endpoints. */
  connect(send: Send): void {
    this.#send = send;
    for (const [key, added] of this.#endpoints) {
      const id = this.#isolating.get(key);
      send({ kind: 'isolate', id: id ?? this.#nextId(), ...added, isPast: id === undefined });
    }
  }

  disconnect(): void {
    this.#send = undefined;
  }

  receive(answer: Answer): void {
    this.#questions.get(answer.id)?.(answer);
  }

  /** Returns undefined when there is no answer in time. A question stays open while the process restarts. */
  async #ask(
    message: ToNetwork & { readonly id: number },
    { limitMs, signal }: { readonly limitMs: number; readonly signal: AbortSignal },
  ): Promise<Answer | undefined> {
    const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
    this.#questions.set(message.id, resolve);
    const over = new AbortController();
    const give = (): void => resolve(undefined);
    void this.#ports.clock.sleep(limitMs, AbortSignal.any([signal, over.signal])).then(give, give);
    this.#send?.(message);
    const answer = await promise;
    over.abort(ANSWERED);
    this.#questions.delete(message.id);
    return answer;
  }

  #nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }
}

function keyOf(sandbox: SandboxEndpoint): string {
  return endpointKey(endpointIdOf(sandbox));
}
