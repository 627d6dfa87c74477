import { isDeepStrictEqual } from 'node:util';
import { BackOff } from '../../base/back-off.ts';
import { isNetplugError, reasonOf } from '../../base/errors.ts';
import type { ControllerName } from '../../config/controller-names.ts';
import type { ControllersSettings } from '../../config/controllers-settings.ts';
import type { Decoded, FollowStore } from '../../datastore/follow.ts';
import {
  CONTROLLERS_CONFIGURATION_NAME,
  type ControllersConfiguration,
} from '../../model/controllers-configuration.ts';
import { lead } from '../../runtime/lead.ts';
import type { LeaderLease } from '../../runtime/leader-lease.ts';
import { clusterController } from './cluster-controller.ts';
import { confirmsUnlocked } from './confirm-unlocked.ts';
import type { ControllerRegistry } from './controller.ts';
import { compareClusters, insistOnSameCluster } from './same-cluster.ts';
import { publishLeader } from './publish-leader.ts';
import { ControllerRun, type RunPorts, type TimedController } from './run-controllers.ts';

const BACK_OFF = { firstMs: 250, maxMs: 5000, maxRefusedMs: 30_000 };
const CLUSTER_CONTROLLER: TimedController = { controller: clusterController(), periodMs: 300_000 };

export interface ServePorts extends Omit<RunPorts, 'confirmCluster' | 'confirmUnlocked'> {
  readonly lease: LeaderLease;
  /** Shows in the orchestrator who leads, where the lease itself is not there. */
  readonly published?: LeaderLease;
  /** Whether the records lie elsewhere than the objects, so that they may be those of another cluster. */
  readonly isApart: boolean;
  readonly registry: ControllerRegistry;
  /** Returns the settings that follow from the environment and the ControllersConfiguration. */
  readonly settingsFor: (configuration: ControllersConfiguration | undefined) => ControllersSettings;
}

/** Campaigns for the lease, and runs the controllers while this process leads. */
export class ControllerServer {
  readonly #ports: ServePorts;
  #leaseProblem: string | undefined = 'the leader lease has not been read yet';
  #run: ControllerRun | undefined;
  #settingsProblem: string | undefined;
  #clusterProblem: string | undefined;
  /** When the clusters were last found to be the same, on the monotonic clock. */
  #comparedMs = Number.NEGATIVE_INFINITY;
  #isLeading = false;

  constructor(ports: ServePorts) {
    this.#ports = ports;
  }

  /** Returns why the process does not do its work: to lead, or to be ready to. */
  notReady(): readonly string[] {
    const own = [this.#leaseProblem, this.#clusterProblem, this.#settingsProblem];
    return [...own, ...(this.#run?.problems() ?? [])].flatMap((each) => each ?? []);
  }

  /** Runs until the signal aborts. */
  async serve(stop: AbortSignal): Promise<void> {
    const { log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!stop.aborted) {
      backOff.start();
      const withdrawn = new AbortController();
      try {
        await this.#compareClusters(stop);
        const ports = { ...this.#ports, lease: this.#watched(this.#ports.lease, withdrawn) };
        const either = AbortSignal.any([stop, withdrawn.signal]);
        await lead(ports, async ({ signal }) => this.#serveTerm(signal), either);
        withdrawn.signal.throwIfAborted();
      } catch (cause) {
        if (stop.aborted) return;
        if (!isNetplugError(cause)) throw cause;
        backOff.fail(cause);
        const reason = reasonOf(cause);
        if (reason !== this.#clusterProblem) log.warning('leader election paused', { reason });
        this.#clusterProblem = reason;
      }
      await backOff.wait(stop);
    }
  }

  /** Works until the signal aborts. @throws what prevents that the cluster is confirmed at first, controllers/other-cluster later */
  async #serveTerm(signal: AbortSignal): Promise<void> {
    const { metrics, isApart } = this.#ports;
    metrics.setLeading(true);
    this.#isLeading = true;
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    let published: Promise<void> | undefined;
    const confirmCluster: RunPorts['confirmCluster'] = async (each) => {
      try {
        if (isApart) await insistOnSameCluster(this.#ports, each);
      } catch (cause) {
        if (isNetplugError(cause, 'controllers/other-cluster')) over.abort(cause);
        throw cause;
      }
    };
    try {
      await confirmCluster(either);
      published = this.#publish(either);
      await this.#lead({ ...this.#ports, confirmCluster, confirmUnlocked: confirmsUnlocked(this.#ports) }, either);
      over.signal.throwIfAborted();
    } catch (cause) {
      if (!signal.aborted) throw cause;
    } finally {
      metrics.setLeading(false);
      this.#isLeading = false;
      over.abort();
      await published;
    }
  }

  async #publish(signal: AbortSignal): Promise<void> {
    const { published, clock, log } = this.#ports;
    if (published !== undefined) await publishLeader({ lease: published, clock, log }, signal);
  }

  /** Runs the controllers, with other settings whenever those change. */
  async #lead(ports: RunPorts, signal: AbortSignal): Promise<void> {
    const { log, registry, isApart } = this.#ports;
    let current: ControllersSettings | undefined;
    let running: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined;
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const end = async (): Promise<void> => {
      running?.stop.abort();
      await running?.ended;
      running = undefined;
      this.#run = undefined;
    };
    try {
      for await (const settings of this.#settings(either)) {
        if (isDeepStrictEqual(settings, current)) continue;
        current = settings;
        await end();
        log.info('controllers started', { controllers: [...settings.controllers.keys()] });
        const timed = [...controllersFor(registry, settings), ...(isApart ? [CLUSTER_CONTROLLER] : [])];
        const run = new ControllerRun(ports, timed);
        const stop = new AbortController();
        const ended = run.run(AbortSignal.any([either, stop.signal]));
        running = { stop, ended };
        void ended.catch(() => failed.abort());
        this.#run = run;
      }
    } finally {
      await end();
    }
  }

  /** Yields the settings at first and after changes. While the datastore is unavailable the last ones apply. */
  async *#settings(signal: AbortSignal): AsyncGenerator<ControllersSettings> {
    const { store, log, settingsFor } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      backOff.start();
      try {
        for await (const configuration of configurationsIn(store, signal)) {
          this.#settingsProblem = configuration.problem;
          if (configuration.problem === undefined) yield settingsFor(configuration.value);
          else log.warning('record skipped', { problem: configuration.problem });
        }
      } catch (cause) {
        if (signal.aborted) return;
        if (backOff.fail(cause) === 1)
          log.warning('settings watch lost, keeping settings', { reason: reasonOf(cause) });
      }
      await backOff.wait(signal);
    }
  }

  /**
   * Notes whether the lease can be read and written, also while another process holds it. Withdraws a candidate that cannot
   * work, however long it has waited: the records may have been given to another cluster since.
   */
  #watched(lease: LeaderLease, withdrawn: AbortController): LeaderLease {
    return {
      durationMs: lease.durationMs,
      hold: async (signal) => {
        await this.#compareAgain(signal, withdrawn);
        try {
          const isHeld = await lease.hold(signal);
          this.#leaseProblem = undefined;
          return isHeld;
        } catch (cause) {
          this.#leaseProblem = `cannot use the leader lease: ${reasonOf(cause)}`;
          throw cause;
        }
      },
      release: async (signal) => lease.release(signal),
      released: async (signal) => lease.released(signal),
    };
  }

  /** A leader compares in its own time. */
  async #compareAgain(signal: AbortSignal, withdrawn: AbortController): Promise<void> {
    const { clock, lease } = this.#ports;
    if (this.#isLeading || clock.monotonic() - this.#comparedMs < lease.durationMs) return;
    try {
      await this.#compareClusters(signal);
    } catch (cause) {
      if (isNetplugError(cause)) withdrawn.abort(cause);
      throw cause;
    }
  }

  async #compareClusters(signal: AbortSignal): Promise<void> {
    if (this.#ports.isApart) await compareClusters(this.#ports, signal);
    this.#comparedMs = this.#ports.clock.monotonic();
    this.#clusterProblem = undefined;
  }
}

function controllersFor(registry: ControllerRegistry, settings: ControllersSettings) {
  return [...settings.controllers].flatMap(([name, { periodMs }]: [ControllerName, { readonly periodMs: number }]) =>
    registry[name](settings).map((controller) => ({ controller, periodMs })),
  );
}

async function* configurationsIn(
  store: FollowStore,
  signal: AbortSignal,
): AsyncGenerator<Decoded<ControllersConfiguration>> {
  const query = { kind: 'resources', of: 'ControllersConfiguration', name: CONTROLLERS_CONFIGURATION_NAME } as const;
  for await (const event of store.follow([query], { signal })) {
    if (event.kind === 'bookmark') continue;
    const record = event.records.at(-1);
    const value =
      record?.kind === 'resource' && record.value?.kind === 'ControllersConfiguration' ? record.value : undefined;
    yield { value, problem: record?.problem };
  }
}
