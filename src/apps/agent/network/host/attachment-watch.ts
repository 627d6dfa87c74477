import type { RetryPorts } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { KEPT_REMEDY, type KeptNotes, keptProblem } from '../../../../cni/kept-notes.ts';
import type { Kernel } from '../../../../dataplane/kernel.ts';
import {
  describeUnconnected,
  findUnconnectedPods,
  UNCONNECTED_REMEDY,
  type UnconnectedPod,
} from '../../../../install/host/unconnected-pods.ts';
import { interfaceKey } from '../../../../model/names.ts';
import { type NodeProblem, asNodeProblems } from '../../../../model/node-report.ts';
import { Reconciler } from '../../../../runtime/reconciler.ts';

const PERIOD_MS = 10_000;
/**
 * Runtimes record an interface after its ADD, and forget it after its DEL: in between a pod seems to have none. A DEL that fails,
 * because the datastore does not answer, is repeated for minutes.
 */
const LASTING_MS = 300_000;
/** Maximum number of pods that are named, logged and told by events. */
const NAMED = 20;

/** The kinds of its problems. */
const PROBLEMS = {
  unconnected: { code: 'attachments/unconnected', severity: 'error', remedy: UNCONNECTED_REMEDY },
  kept: { code: 'attachments/kept', severity: 'warning', remedy: KEPT_REMEDY },
  unknown: { code: 'attachments/unknown', severity: 'warning' },
} as const;

/** A pod as an event names it. */
interface EventPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export interface AttachmentWatchPorts extends RetryPorts {
  readonly log: Log;
  readonly kernel: Pick<Kernel, 'listHostLinks' | 'assertNetns'>;
  readonly keptNotes: Pick<KeptNotes, 'list'>;
  /** Folder of what the runtime keeps of the interfaces of its pods. */
  readonly runtimeRecords: string;
  /** Writes a warning on a pod; undefined where no API is known. */
  readonly warn: ((pod: EventPod, message: string, signal: AbortSignal) => Promise<void>) | undefined;
}

/** Watches what no record of netplug tells: running pods that have lost their interface, and what GC kept on the word of the kernel. */
export class AttachmentWatch {
  readonly #ports: AttachmentWatchPorts;
  readonly #reconciler: Reconciler;
  /** When each pod was first seen without its interface, by the monotonic clock. */
  #seenMs: ReadonlyMap<string, number> = new Map();
  #unconnected: readonly UnconnectedPod[] = [];
  #kept: readonly string[] = [];
  #failures: readonly string[] = [];

  constructor(ports: AttachmentWatchPorts) {
    this.#ports = ports;
    this.#reconciler = new Reconciler({
      ...ports,
      name: 'attachments',
      reconcile: async (signal) => this.look(signal),
      resyncMs: PERIOD_MS,
    });
  }

  /** What was found last. */
  problems(): readonly NodeProblem[] {
    const named = this.#unconnected.slice(0, NAMED).map(describeUnconnected);
    const more = this.#unconnected.length - named.length;
    const unconnected = [...named, ...(more > 0 ? [`${String(more)} more pods have no interface`] : [])];
    return [
      asNodeProblems(PROBLEMS.unconnected, unconnected),
      asNodeProblems(PROBLEMS.kept, this.#kept),
      asNodeProblems(PROBLEMS.unknown, this.#failures),
    ].flat();
  }

  async run(signal: AbortSignal): Promise<void> {
    this.#reconciler.trigger();
    await this.#reconciler.run(signal);
  }

  /** @throws kernel/failed */
  async look(signal: AbortSignal): Promise<void> {
    await this.readKept();
    const found = await this.#lasting().catch((cause: unknown) => {
      this.#failures = [`pods without an interface are not known: ${reasonOf(cause)}`];
      throw cause;
    });
    this.#failures = [];
    const before = new Set(this.#unconnected.map(interfaceKey));
    this.#unconnected = found;
    for (const pod of found.filter((each) => !before.has(interfaceKey(each))).slice(0, NAMED))
      await this.#report(pod, signal);
  }

  /** Reads what GC kept, as far as its links are still there. Never rejects: a failure is a problem. */
  async readKept(): Promise<void> {
    const { kernel, keptNotes, clock } = this.#ports;
    try {
      const notes = await keptNotes.list();
      const owners = notes.length === 0 ? [] : kernel.listHostLinks().flatMap(({ owner }) => owner ?? []);
      const attached = new Set(owners.map(interfaceKey));
      this.#kept = notes.flatMap((note) => keptProblem(note, { attached, nowMs: clock.now() }) ?? []);
    } catch (cause) {
      this.#kept = [`what GC kept is not known: ${reasonOf(cause)}`];
    }
  }

  /** Returns the pods that have been without their interface at every look of some minutes. */
  async #lasting(): Promise<readonly UnconnectedPod[]> {
    const { kernel, runtimeRecords, clock } = this.#ports;
    const found = await findUnconnectedPods(kernel, runtimeRecords);
    const nowMs = clock.monotonic();
    const seenMs = new Map(found.map((pod) => [interfaceKey(pod), this.#seenMs.get(interfaceKey(pod)) ?? nowMs]));
    this.#seenMs = seenMs;
    return found.filter((pod) => nowMs - (seenMs.get(interfaceKey(pod)) ?? nowMs) >= LASTING_MS);
  }

  /** An event is for people; without it the work goes on. */
  async #report(found: UnconnectedPod, signal: AbortSignal): Promise<void> {
    const { log, warn } = this.#ports;
    const { pod, podUid: uid, containerId, network, netns } = found;
    log.error('pod without interface found', { pod, container: containerId, network, netns });
    const [namespace, name] = pod?.split('/') ?? [];
    if (warn === undefined || namespace === undefined || name === undefined || uid === undefined) return;
    const message = `${describeUnconnected(found)}. ${UNCONNECTED_REMEDY}`;
    await warn({ namespace, name, uid }, message, signal).catch((cause: unknown) => {
      if (!signal.aborted) log.warning('event not recorded', { pod, reason: reasonOf(cause) });
    });
  }
}
