import { NetplugError } from '../../base/errors.ts';
import { Reconciler } from '../../runtime/reconciler.ts';
import { supervise } from '../../runtime/supervise.ts';
import type { FollowStore } from '../../datastore/follow.ts';
import type { Controller, ControllerPorts, RunningController } from './controller.ts';
import { SideFollower } from './follow-side.ts';
import { feedKey, Observed, type ObservedChange, type Side } from './observed.ts';
import { aborted } from '../../base/until-aborted.ts';

export interface TimedController {
  readonly controller: Controller;
  readonly periodMs: number;
}

export interface RunPorts extends ControllerPorts {
  /** Where the records of each side come from; the same for both on the API datastore. */
  readonly followed: Readonly<Record<Side, FollowStore>>;
}

interface Part {
  readonly controller: Controller;
  readonly feeds: ReadonlySet<string>;
  readonly running: RunningController;
  readonly reconciler: Reconciler;
  /** Resolves when the first run has succeeded. */
  readonly begun: Promise<void>;
}

/** Controllers that run together: one list and one watch per kind for all of them. */
export class ControllerRun {
  readonly #ports: RunPorts;
  readonly #observed = new Observed();
  readonly #sides: readonly SideFollower[];
  readonly #parts: readonly Part[];

  constructor(ports: RunPorts, timed: readonly TimedController[]) {
    this.#ports = ports;
    const feeds = new Map(timed.flatMap(({ controller }) => controller.feeds).map((feed) => [feedKey(feed), feed]));
    const sides = ['datastore', 'orchestrator'] as const;
    this.#sides = sides.map((side) => {
      const own = [...feeds.values()].filter((feed) => feed.side === side);
      return new SideFollower({ ...ports, store: ports.followed[side] }, side, {
        feeds: own,
        observed: this.#observed,
      });
    });
    this.#parts = timed.map((each) => this.#partOf(each));
  }

  /** Returns why not everything is in its desired state, a sentence each. */
  problems(): readonly string[] {
    return this.#parts.flatMap(({ reconciler }) => reconciler.report('lastError'));
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { metrics } = this.#ports;
    for (const { controller } of this.#parts) metrics.setRunning(controller.name, true);
    try {
      await supervise(
        [
          ...this.#sides.map((side) => async (over: AbortSignal) => {
            await side.run((changes) => this.#note(changes), over);
            if (!over.aborted) await aborted(over);
          }),
          ...this.#parts.map(
            ({ reconciler }) =>
              async (over: AbortSignal) =>
                reconciler.run(over),
          ),
          ...this.#parts.map((part) => async (over: AbortSignal) => followBeside(part, over)),
        ],
        signal,
      );
    } finally {
      for (const { controller } of this.#parts) metrics.setRunning(controller.name, false);
    }
  }

  #note(changes: readonly ObservedChange[]): void {
    const isComplete = this.#staleness() === undefined;
    for (const { controller, feeds, running, reconciler } of this.#parts) {
      const own = changes.filter(({ feed }) => feeds.has(feedKey(feed)));
      const hasWork = running.note(own);
      this.#ports.metrics.setRecords(
        controller.name,
        controller.feeds.reduce((sum, feed) => sum + this.#observed.count(feed), 0),
      );
      if (isComplete && (hasWork || !reconciler.hasSucceeded)) reconciler.trigger();
    }
  }

  #partOf({ controller, periodMs }: TimedController): Part {
    const { metrics, clock } = this.#ports;
    const running = controller.start(this.#ports, this.#observed);
    const fullMs = controller.periodMs ?? periodMs;
    let fullAtMs = Number.NEGATIVE_INFINITY;
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const reconciler = new Reconciler({
      ...this.#ports,
      name: controller.name,
      resyncMs: fullMs,
      reconcile: async (signal) => {
        const startMs = clock.monotonic();
        let failed = true;
        try {
          this.#insistOnCompleteness();
          // Resyncs come on multiples of the period, a little more or less late.
          const isFull = Math.floor(startMs / fullMs) > Math.floor(fullAtMs / fullMs);
          await running.reconcile({ isFull }, signal);
          if (isFull) fullAtMs = startMs;
          failed = false;
          begin();
        } finally {
          if (!signal.aborted) metrics.observeRun(controller.name, { ms: clock.monotonic() - startMs, failed });
        }
      },
    });
    return { controller, feeds: new Set(controller.feeds.map(feedKey)), running, reconciler, begun };
  }

  #staleness(): string | undefined {
    return this.#sides.map(({ problem }) => problem).find((problem) => problem !== undefined);
  }

  /** Nothing is decided by records that are incomplete or outdated. */
  #insistOnCompleteness(): void {
    const problem = this.#staleness();
    if (problem !== undefined)
      throw new NetplugError('store/unavailable', problem, { hint: 'None needed: the watch is started again' });
  }
}

/** What is followed then shares the watches of the feeds, which list everything anew when they begin. */
async function followBeside({ running, reconciler, begun }: Part, signal: AbortSignal): Promise<void> {
  const over = aborted(signal);
  await Promise.race([begun, over]);
  if (!signal.aborted) await running.follow?.(() => reconciler.trigger(), signal);
  await over;
}
