import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { getOrInsert } from '../../../../base/get-or-insert.ts';
import type { PolicyDirection } from '../../../../policy/resolved-policy.ts';
import { trafficText, whyCommand } from '../../../../policy/why-command.ts';
import type { ObservedFlow } from './flow-record.ts';

/** At most one event about a pod and a rule in this time. */
const REPEAT_MS = 300_000;
/**
 * Events of a namespace about peers of another: so many at once, and then one per period. Neither a flood in another namespace nor
 * one that comes from another delays an event.
 */
const BURST = 20;
const PERIOD_MS = 5000;
const TIMEOUT_MS = 10_000;

export interface EventPorts {
  readonly clock: Clock;
  readonly log: Log;
  /** Writes a warning on a pod of the node. @throws store/unavailable, store/refused */
  readonly warn: (
    pod: { readonly namespace: string; readonly name: string },
    message: string,
    signal: AbortSignal,
  ) => Promise<void>;
}

/** The rule that denied a flow. */
interface Denial {
  /** The id of the rule. */
  readonly id: string;
  readonly direction: PolicyDirection;
  /** Returns the reason, as a sentence without a full stop. Called only for an event that is written. */
  readonly reason: () => string;
}

/** The events of one namespace. */
interface Ration {
  /** When an event was written last, by pod and rule, the oldest first: no more than the rate allows in `REPEAT_MS`. */
  readonly written: Map<string, number>;
  /** By namespace of the peer; empty for one that is no pod. */
  readonly tokens: Map<string, Tokens>;
}

interface Tokens {
  count: number;
  refilledMs: number;
}

/** Writes events about denied connections on the pods of the node, at a bounded rate per namespace. Failures are logged. */
export class DenialEvents {
  readonly #ports: EventPorts;
  /** By namespace. */
  readonly #rations = new Map<string, Ration>();
  #sweptMs: number;
  #failure: string | undefined;

  constructor(ports: EventPorts) {
    this.#ports = ports;
    this.#sweptMs = ports.clock.monotonic();
  }

  /** Writes an event on the pod whose policies denied the flow, unless there were enough. */
  async report(flow: ObservedFlow, { id, direction, reason }: Denial): Promise<void> {
    const { log, warn } = this.#ports;
    const { pod } = direction === 'egress' ? flow.source : flow.destination;
    if (pod === undefined) return;
    const [namespace = '', name = ''] = pod.split('/');
    const [from = ''] = peerOf(flow, { direction }).pod?.split('/') ?? [];
    if (!this.#isDue(namespace, from, `${name} ${id}`)) return;
    const message = `${messageOf(flow, { pod, namespace, direction })}: ${reason()}${hintOf(flow, { pod, namespace, direction })}`;
    try {
      await warn({ namespace, name }, message, AbortSignal.timeout(TIMEOUT_MS));
      this.#failure = undefined;
    } catch (cause) {
      const failure = reasonOf(cause);
      if (failure !== this.#failure) log.warning('event on a pod not written', { pod, reason: failure });
      this.#failure = failure;
    }
  }

  #isDue(namespace: string, from: string, key: string): boolean {
    const nowMs = this.#ports.clock.monotonic();
    this.#sweep(nowMs);
    const ration = getOrInsert(this.#rations, namespace, () => ({ written: new Map(), tokens: new Map() }));
    const lastMs = ration.written.get(key);
    if (lastMs !== undefined && nowMs - lastMs < REPEAT_MS) return false;
    const tokens = ration.tokens.get(from) ?? { count: BURST, refilledMs: nowMs };
    const refill = Math.floor((nowMs - tokens.refilledMs) / PERIOD_MS);
    tokens.count = Math.min(BURST, tokens.count + refill);
    tokens.refilledMs += refill * PERIOD_MS;
    ration.tokens.set(from, tokens);
    if (tokens.count === 0) return false;
    tokens.count -= 1;
    ration.written.delete(key);
    ration.written.set(key, nowMs);
    return true;
  }

  /** Forgets what delays no event any more: namespaces come and go. */
  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < REPEAT_MS) return;
    this.#sweptMs = nowMs;
    for (const [namespace, { written }] of this.#rations) {
      for (const [key, atMs] of written) {
        if (nowMs - atMs < REPEAT_MS) break;
        written.delete(key);
      }
      // All its tokens have come back long before.
      if (written.size === 0) this.#rations.delete(namespace);
    }
  }
}

interface OwnPod {
  readonly pod: string;
  readonly namespace: string;
  readonly direction: PolicyDirection;
}

function messageOf(flow: ObservedFlow, own: OwnPod): string {
  const { address } = peerOf(flow, own);
  const peer = shownPeer(flow, own);
  const shown = peer === address ? address : `${peer} (${address})`;
  return `Denied ${trafficText(flow)} ${own.direction === 'egress' ? 'to' : 'from'} ${shown}`;
}

function hintOf(flow: ObservedFlow, own: OwnPod): string {
  const ends = [own.pod, shownPeer(flow, own)] as const;
  const [from, to] = own.direction === 'egress' ? ends : ([ends[1], ends[0]] as const);
  const command = whyCommand({ ...flow, from, to });
  return command === undefined ? '' : `. See: ${command}`;
}

/** Names the peer only in the pod's own namespace: users of a namespace need not learn about pods of others. */
function shownPeer(flow: ObservedFlow, own: OwnPod): string {
  const { address, pod } = peerOf(flow, own);
  return pod?.startsWith(`${own.namespace}/`) === true ? pod : address;
}

function peerOf(flow: ObservedFlow, { direction }: Pick<OwnPod, 'direction'>): ObservedFlow['source'] {
  return direction === 'egress' ? flow.destination : flow.source;
}
