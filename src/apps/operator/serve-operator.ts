import { reasonOf } from '../../base/errors.ts';
import { CLUSTER_WIDE_KINDS } from '../../install/cluster/cluster-wide-kinds.ts';
import { crdManifests } from '../../install/cluster/definitions/crd-manifests.ts';
import { namespaceObject } from '../../install/cluster/cluster-objects.ts';
import { OPERATOR, SYSTEM_NAMESPACE } from '../../install/cluster/names.ts';
import { findObject, tryApply } from '../../kube/objects/apply.ts';
import { SERVICE_CIDRS } from '../../kube/service-ranges.ts';
import { NODES } from '../../kube/paths.ts';
import { lead } from '../../runtime/lead.ts';
import type { LeaderLease } from '../../runtime/leader-lease.ts';
import { Reconciler } from '../../runtime/reconciler.ts';
import { supervise } from '../../runtime/supervise.ts';
import { IP_POOLS } from './cluster-state.ts';
import { PART_OF } from './adopted-objects.ts';
import { INSTALLATIONS, type InstallationPorts, InstallationReconciler } from './installation-reconciler.ts';
import { kindCollection, referenceOf } from '../../kube/objects/reference.ts';
import { NODE_REPORTS, WITH_ERRORS } from '../../install/cluster/node-reports.ts';
import { ObjectVersions, type WatchedKind } from './object-versions.ts';

const RESYNC_MS = 60_000;
/** A roll-out on many nodes changes a DaemonSet many times in a second. */
const PAUSE_MS = 500;

export interface OperatorPorts extends Omit<InstallationPorts, 'versions'> {
  readonly lease: LeaderLease;
  /** Returns who holds the lease; undefined when that cannot be read. */
  readonly leaseHolder: (signal: AbortSignal) => Promise<string | undefined>;
}

/** Campaigns for the lease, and reconciles the installation while this process leads. */
export class OperatorServer {
  readonly #ports: OperatorPorts;
  #leaseProblem: string | undefined = 'the leader lease has not been read yet';
  #reconciler: Reconciler | undefined;
  #otherHolder: string | undefined;

  constructor(ports: OperatorPorts) {
    this.#ports = ports;
  }

  /** Returns why the process does not do its work: to lead, or to be ready to. */
  notReady(): readonly string[] {
    return [
      ...(this.#leaseProblem === undefined ? [] : [this.#leaseProblem]),
      ...(this.#reconciler?.report('lastError') ?? []),
    ];
  }

  /** Runs until the signal aborts. */
  async serve(stop: AbortSignal): Promise<void> {
    const { metrics } = this.#ports;
    await lead(
      { ...this.#ports, lease: this.#watched(this.#ports.lease) },
      async ({ signal }) => {
        metrics.setLeading(true);
        try {
          await this.#lead(signal);
        } finally {
          metrics.setLeading(false);
          metrics.setConditions([]);
          this.#reconciler = undefined;
        }
      },
      stop,
    );
  }

  async #lead(signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#ports;
    const versions: ObjectVersions = new ObjectVersions(this.#ports, watchedKinds(), () => reconciler.trigger());
    const installation = new InstallationReconciler({ ...this.#ports, versions });
    const reconciler = new Reconciler({
      ...this.#ports,
      name: 'installation',
      resyncMs: RESYNC_MS,
      pauseMs: PAUSE_MS,
      reconcile: async (over) => {
        const startMs = clock.monotonic();
        let failed = true;
        try {
          await installation.reconcile(over);
          failed = false;
        } finally {
          if (!over.aborted) metrics.observeRun({ ms: clock.monotonic() - startMs, failed });
        }
      },
    });
    this.#reconciler = reconciler;
    reconciler.trigger();
    const parts = [versions, reconciler].map(
      (part) =>
        async (over: AbortSignal): Promise<void> =>
          part.run(over),
    );
    await supervise(parts, signal);
    await installation.releaseFinalizer();
  }

  /** Notes whether the lease can be used, and says which other operator holds it. */
  #watched(lease: LeaderLease): LeaderLease {
    return {
      durationMs: lease.durationMs,
      hold: async (signal) => {
        try {
          await this.#ensureNamespace(signal);
          const isHeld = await lease.hold(signal);
          this.#leaseProblem = undefined;
          if (isHeld) this.#otherHolder = undefined;
          else await this.#sayHolder(signal);
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

  async #sayHolder(signal: AbortSignal): Promise<void> {
    const holder = await this.#ports.leaseHolder(signal);
    if (holder === undefined || holder === '' || holder === this.#otherHolder) return;
    this.#otherHolder = holder;
    this.#ports.log.info('leadership held by another operator', { holder, lease: `${SYSTEM_NAMESPACE}/${OPERATOR}` });
  }

  /** The lease is in the namespace of netplug, which the first operator of a cluster makes. */
  async #ensureNamespace(signal: AbortSignal): Promise<void> {
    if (this.#leaseProblem === undefined) return;
    const { api, release } = this.#ports;
    const object = namespaceObject(release);
    if ((await findObject(api, referenceOf(object), signal)) !== undefined) return;
    await tryApply(api, { object, manager: OPERATOR }, signal);
  }
}

/**
 * Everything that an installation consists of or depends on. A Node is written again and again without news, and so is a report:
 * what has changed in one is read with the next run.
 */
export function watchedKinds(): readonly WatchedKind[] {
  const own = (kind: string, namespace?: string): WatchedKind => ({
    collection: kindCollection(kind, namespace),
    options: { labelSelector: PART_OF },
    triggers: 'every change',
  });
  const namespaced = [
    'Pod',
    'ServiceAccount',
    'ConfigMap',
    'DaemonSet',
    'Deployment',
    'Role',
    'RoleBinding',
    'PodDisruptionBudget',
  ];
  return [
    { collection: INSTALLATIONS, options: {}, triggers: 'every change' },
    { collection: IP_POOLS, options: {}, triggers: 'every change' },
    { collection: NODES, options: {}, triggers: 'count' },
    { collection: SERVICE_CIDRS, options: {}, triggers: 'every change', mayBeUnserved: true },
    { collection: NODE_REPORTS, options: WITH_ERRORS, triggers: 'count' },
    ...CLUSTER_WIDE_KINDS.map((kind) => own(kind)),
    ...namespaced.map((kind) => own(kind, SYSTEM_NAMESPACE)),
    {
      collection: kindCollection('CustomResourceDefinition'),
      options: {},
      names: new Set(crdManifests().map((each) => referenceOf(each).name)),
      triggers: 'every change',
    },
  ];
}
