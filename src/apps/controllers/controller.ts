import type { RetryPorts } from '../../base/back-off.ts';
import type { Log } from '../../base/log.ts';
import type { ControllerName } from '../../config/controller-names.ts';
import type { ControllersSettings } from '../../config/controllers-settings.ts';
import type { Store } from '../../datastore/store.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { ControllerMetrics } from './metrics.ts';
import type { Feed, Observed, ObservedChange } from './observed.ts';

export interface ControllerPorts extends RetryPorts {
  readonly log: Log;
  /** Netplug's datastore, behind the fence of the leader: every write throws store/not-leader when the lease is lost. */
  readonly store: Store;
  /** The API of the orchestrator, on every datastore. */
  readonly api: OrchApi;
  readonly metrics: ControllerMetrics;
  /**
   * Expects an API server of the cluster that the records are of, and ends the leadership unless it is. Before what follows from
   * the absence of objects is done: in another cluster everything is absent. @throws controllers/other-cluster, store/*
   */
  readonly confirmCluster: (signal: AbortSignal) => Promise<void>;
  /** Before a write: one during an import or export would change what is copied. @throws store/* */
  readonly confirmUnlocked: (signal: AbortSignal) => Promise<void>;
}

/** Brings one part of the datastore to the state that follows from what it observes. */
export interface Controller {
  /** Unique; that of its switch, or with more after a `-`. */
  readonly name: string;
  readonly feeds: readonly Feed[];
  /** The interval of the full comparison; that of the settings unless given. */
  readonly periodMs?: number;
  readonly start: (ports: ControllerPorts, observed: Observed) => RunningController;
}

export interface RunningController {
  /** Notes what has changed, at first all that there is, and reports whether there is work. */
  readonly note: (changes: readonly ObservedChange[]) => boolean;
  /** Does the work. Only while all feeds are complete. The first run is a full one, and one each period. */
  readonly reconcile: (run: { readonly isFull: boolean }, signal: AbortSignal) => Promise<void>;
  /** Follows what no feed has until the signal aborts, once the first run has succeeded, and triggers a run when there is work. */
  readonly follow?: (trigger: () => void, signal: AbortSignal) => Promise<void>;
}

/** Returns the controllers behind one switch, with those settings. */
export type MakeControllers = (settings: ControllersSettings) => readonly Controller[];
export type ControllerRegistry = Readonly<Record<ControllerName, MakeControllers>>;
