import { BackOff, type RetryPorts } from '../../base/back-off.ts';
import { never, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { FollowStore } from '../../datastore/follow.ts';
import { FollowServer } from '../../datastore/follow-server.ts';
import type { FlowsQuestion, ShownFlows } from '../../model/shown-flows.ts';
import type { NodeProblem } from '../../model/node-report.ts';
import type { WatchRelay } from '../../kube/watch-relay.ts';
import type { ShownParts } from './network/shown-network.ts';
import type { PodIsolator } from './pod-isolator.ts';
import type { CallSettings, FromNetwork, NetworkStatus, ToNetwork, RelayedObjects } from './network-channel.ts';

const BACK_OFF = { firstMs: 100, maxMs: 10_000, maxRefusedMs: 30_000 };
/** The time limit for one answer. The process may plan thousands of routes first. */
const ANSWER_MS = 5000;
/** Time for which a process may leave questions unanswered and send nothing else before it is killed. */
const HUNG_MS = 120_000;
const STOP_MS = 3000;
const DOWN = {
  code: 'network/down',
  severity: 'error',
  remedy: 'It is started again; read the log of netplug-agent when it keeps ending',
} as const;

/** A running network process. */
export interface LaunchedNetwork {
  send(message: ToNetwork): void;
  /** Resolves, when the process has exited, to a description of how. */
  readonly ended: Promise<string>;
  kill(): void;
}

interface NetworkProcessPorts extends RetryPorts {
  readonly log: Log;
  readonly launch: (onMessage: (message: FromNetwork) => void) => LaunchedNetwork;
  /** Serves the records that the agent follows already. */
  readonly followed: FollowStore;
  /** Resolves when this machine has the name of the node, or the signal aborts. */
  readonly untilNamed: (signal: AbortSignal) => Promise<void>;
  readonly onRestart: () => void;
  readonly onSettings: (settings: CallSettings) => void;
  /** Receive objects that a network process sends, so that this one watches none of them. */
  readonly relays: ReadonlyMap<RelayedObjects, Pick<WatchRelay, 'receive' | 'receiveState' | 'disconnect'>>;
  /** Asks each process to enforce the policies of pods. */
  readonly isolator: Pick<PodIsolator, 'connect' | 'disconnect' | 'receive'>;
}

interface Question {
  readonly resolve: (answer: FromNetwork) => void;
  readonly reject: (cause: unknown) => void;
}

/** One answer of the network process. */
export interface NetworkAnswer {
  readonly standing: NetworkStatus['standing'] | undefined;
  readonly problems: readonly NodeProblem[];
}

/** Runs the network of the node in a process of its own, and restarts it with back-off. The agent serves calls meanwhile. */
export class NetworkProcess {
  readonly #ports: NetworkProcessPorts;
  readonly #questions = new Map<number, Question>();
  #lastId = 0;
  #current: LaunchedNetwork | undefined;
  /** Reason why no process runs; the subject of the clause is the network. */
  #down = 'its process is starting';
  #hasExited = false;
  /** When the first question since the last message was asked, in milliseconds of the monotonic clock. */
  #silentSinceMs: number | undefined;

  constructor(ports: NetworkProcessPorts) {
    this.#ports = ports;
  }

  /** Returns why pods may be without network, a sentence each. */
  async failures(): Promise<readonly string[]> {
    return (await this.observed()).failures;
  }

  /** Returns the same beside what cuts the node off, which is not known while a process starts or does not answer. */
  async observed(): Promise<Pick<NetworkStatus, 'failures' | 'disconnections'>> {
    try {
      return await this.#status();
    } catch (cause) {
      const failures = [`network: ${reasonOf(cause)}`];
      const isDown = this.#hasExited && this.#current === undefined;
      return isDown ? { failures, disconnections: failures } : { failures };
    }
  }

  /** Returns what the process knows to be wrong, or that it does not answer. Then it has no standing. */
  async report(): Promise<NetworkAnswer> {
    try {
      return await this.#status();
    } catch (cause) {
      return { standing: undefined, problems: [{ ...DOWN, text: `network: ${reasonOf(cause)}` }] };
    }
  }

  /** @throws an error that says why the process does not answer */
  async show(): Promise<ShownParts> {
    const answer = await this.#ask({ kind: 'show' });
    if (answer.kind !== 'show') throw unexpected(answer);
    return answer.network;
  }

  /** @throws an error that says why the process does not answer */
  async flows(question: FlowsQuestion): Promise<ShownFlows> {
    const answer = await this.#ask({ kind: 'flows', question });
    if (answer.kind !== 'flows') throw unexpected(answer);
    return answer.flows;
  }

  /** Runs until the signal aborts and the process has exited. */
  async run(signal: AbortSignal): Promise<void> {
    const { log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      backOff.start();
      const ended = await this.#runOnce(signal);
      if (signal.aborted) return;
      this.#ports.onRestart();
      this.#down = `its process exited: ${ended}`;
      this.#hasExited = true;
      backOff.fail(new Error(this.#down));
      log.error('network process exited, kernel state kept', { reason: this.#down });
      await backOff.wait(signal);
    }
  }

  async #runOnce(signal: AbortSignal): Promise<string> {
    const follows = new FollowServer(this.#ports.followed, (answer) => launched.send(answer));
    const launched = this.#ports.launch((message) => this.#receive(message, follows));
    this.#current = launched;
    this.#ports.isolator.connect((message) => launched.send(message));
    const over = new AbortController();
    void this.#announceName(launched, over.signal);
    const stop = (): void => {
      launched.send({ kind: 'stop' });
      void this.#after(STOP_MS, launched.ended, () => launched.kill());
    };
    signal.addEventListener('abort', stop, { once: true });
    const ended = await launched.ended;
    signal.removeEventListener('abort', stop);
    follows.close();
    this.#current = undefined;
    over.abort();
    this.#silentSinceMs = undefined;
    this.#ports.isolator.disconnect();
    for (const relay of this.#ports.relays.values()) relay.disconnect();
    for (const { reject } of this.#questions.values()) reject(new Error(`its process exited: ${ended}`));
    return ended;
  }

  async #announceName(launched: LaunchedNetwork, signal: AbortSignal): Promise<void> {
    await this.#ports.untilNamed(signal);
    if (!signal.aborted) launched.send({ kind: 'named' });
  }

  async #status(): Promise<NetworkStatus> {
    const asked = this.#current;
    const answer = await this.#ask({ kind: 'status' });
    if (answer.kind !== 'status') throw unexpected(answer);
    if (answer.status.threadsStuckMs >= HUNG_MS && asked !== undefined && asked === this.#current) {
      this.#kill(asked, 'none of its threads was free');
    }
    return answer.status;
  }

  async #ask(
    asked: { readonly kind: 'status' | 'show' } | { readonly kind: 'flows'; readonly question: FlowsQuestion },
  ): Promise<FromNetwork> {
    const current = this.#current;
    if (current === undefined) throw new Error(this.#down);
    this.#lastId += 1;
    const id = this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<FromNetwork>();
    this.#questions.set(id, { resolve, reject });
    this.#silentSinceMs ??= this.#ports.clock.monotonic();
    void this.#after(ANSWER_MS, promise, () => {
      reject(new Error(`its process did not answer within ${String(ANSWER_MS / 1000)} s`));
      this.#killIfHung(current);
    });
    try {
      current.send({ ...asked, id });
      return await promise;
    } finally {
      this.#questions.delete(id);
    }
  }

  /** The kernel keeps its state meanwhile; a new process reads everything again. */
  #killIfHung(asked: LaunchedNetwork): void {
    if (asked !== this.#current || this.#silentSinceMs === undefined) return;
    if (this.#ports.clock.monotonic() - this.#silentSinceMs < HUNG_MS) return;
    this.#kill(asked, 'it sent nothing');
    this.#silentSinceMs = undefined;
  }

  #kill(hung: LaunchedNetwork, why: string): void {
    this.#ports.log.error('network process killed', { reason: `${why} for ${String(HUNG_MS / 1000)} s` });
    hung.kill();
  }

  /** Calls `act` unless the work ends within the limit. */
  async #after(limitMs: number, work: Promise<unknown>, act: () => void): Promise<void> {
    const over = new AbortController();
    const end = (): void => over.abort();
    void work.then(end, end);
    await this.#ports.clock.sleep(limitMs, over.signal).then(act, () => undefined);
  }

  #receive(message: FromNetwork, follows: FollowServer): void {
    this.#silentSinceMs = undefined;
    switch (message.kind) {
      case 'status':
      case 'show':
      case 'flows':
        this.#questions.get(message.id)?.resolve(message);
        return;
      case 'isolate':
      case 'release':
        this.#ports.isolator.receive(message);
        return;
      case 'failed':
        this.#questions.get(message.id)?.reject(new Error(message.reason));
        return;
      case 'relayed':
        this.#ports.relays.get(message.of)?.receive(message.event);
        return;
      case 'relayed-states':
        for (const [of, state] of Object.entries(message.states)) this.#ports.relays.get(of)?.receiveState(state);
        return;
      case 'relayed-lost':
        this.#ports.relays.get(message.of)?.disconnect();
        return;
      case 'settings':
        this.#ports.onSettings(message.settings);
        return;
      case 'follow-begin':
      case 'follow-next':
      case 'follow-end':
        follows.receive(message);
        return;
      default:
        never(message);
    }
  }
}

function unexpected({ kind }: FromNetwork): Error {
  return new Error(`an unexpected answer, "${kind}"`);
}
