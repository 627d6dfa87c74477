import type { ImageDigests } from '../../base/image-digests.ts';
import type { RetryPorts } from '../../base/back-off.ts';
import { timeLimit } from '../../base/clock.ts';
import { isNetplugError, NetplugError, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { problemLine } from '../../base/problem.ts';
import { crdManifests } from '../../install/cluster/definitions/crd-manifests.ts';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import { INVENTORY, OPERATOR, SYSTEM_NAMESPACE, systemObject } from '../../install/cluster/names.ts';
import { type ClusterSettings, hasFanOut } from '../../install/cluster/settings.ts';
import { type ApiObject, finalizersOf, isLeaving } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { PODS } from '../../kube/paths.ts';
import type { NodeState } from '../../kube/status/node-state.ts';
import { recordEvent } from '../../kube/record-event.ts';
import { decodeResource } from '../../model/decode-resource.ts';
import { HOLD_AGENTS, INSTALLATION_NAME, type InstallationSpec, OPERATOR_FINALIZER } from '../../model/installation.ts';
import { type InstallationStatus, readInstallationStatus } from '../../model/installation-status.ts';
import { API_VERSION } from '../../model/resource.ts';
import { acceptSpec, settingsIn } from './accept-spec.ts';
import { adoptedObjects, PART_OF } from './adopted-objects.ts';
import { observeCluster } from './cluster-state.ts';
import { FanOut } from './fan-out.ts';
import { type InstallationReport, isSameStatus, type ReportedProblem, statusOf } from './installation-report.ts';
import { type Inventory, inventoryIn, inventoryObject, planPruning } from './inventory.ts';
import { isLeftAlone, MANAGED_ANNOTATION } from '../../install/cluster/owned-pool.ts';
import { ObjectApplier, problemOf, type TakenFields } from './object-applier.ts';
import { findObject, tryApply } from '../../kube/objects/apply.ts';
import { collectionHolding, objectName, referenceKey, referenceOf, referenceTo } from '../../kube/objects/reference.ts';
import { readNodeReports, reportedNodes } from '../../install/cluster/node-reports.ts';
import type { ObjectVersions } from './object-versions.ts';
import type { OperatorMetrics } from './metrics.ts';
import { deleteObserved, type RemovalPorts, removeInstallation } from './remove-installation.ts';
import { applyStages, type StagePorts, type StagesResult } from './stage-run.ts';

const INSTALLATION = referenceTo('Installation', { name: INSTALLATION_NAME });
export const INSTALLATIONS = collectionHolding(INSTALLATION);
const OWN_PODS = { ...PODS, namespace: SYSTEM_NAMESPACE };
/** Pause between events about the same fields of an object, so that two programs that overwrite each other do not flood the events. */
const EVENT_PAUSE_MS = 5 * 60_000;
const SHUT_DOWN_MS = 3000;
const CONFLICT_MS = 50;
const SHOWN_CHANGES = 10;
const HELD = `Agents are held by the annotation ${HOLD_AGENTS}: a node gets a new one only when the pod of its agent is deleted`;

export interface InstallationPorts extends RetryPorts {
  readonly api: OrchApi;
  readonly log: Log;
  readonly metrics: OperatorMetrics;
  readonly release: string;
  /** Of the images of the release. */
  readonly digests: ImageDigests;
  readonly versions: Pick<ObjectVersions, 'find' | 'problems'>;
}

/** Brings the cluster to the state that the Installation describes, and reports how far it is. */
export class InstallationReconciler {
  readonly #ports: InstallationPorts;
  readonly #applier: ObjectApplier;
  readonly #parts: StagePorts & RemovalPorts;
  readonly #fanOut: FanOut;
  readonly #eventAtMs = new Map<string, number>();
  /** Fields that were taken over since this process began to lead, the last few. */
  #taken: readonly string[] = [];
  #object: ApiObject | undefined;

  constructor(ports: InstallationPorts) {
    this.#ports = ports;
    this.#applier = new ObjectApplier({
      ...ports,
      onTaken: async (taken, signal) => this.#reportTaken(taken, signal),
      onApplied: (how) => ports.metrics.countChange(how),
    });
    this.#parts = {
      api: ports.api,
      applier: this.#applier,
      listPods: async (signal) => ports.api.list(OWN_PODS, { labelSelector: PART_OF }, signal),
      saveInventory: async (inventory, signal) => this.#saveInventory(inventory, signal),
      now: () => ports.clock.now(),
    };
    this.#fanOut = new FanOut({ ...ports, ...this.#parts });
  }

  /** @throws store/* when the API cannot be used, or does not take the status */
  async reconcile(signal: AbortSignal): Promise<void> {
    const { api } = this.#ports;
    await this.#ensureOwnDefinition(signal);
    this.#object = await findObject(api, INSTALLATION, signal);
    if (this.#object === undefined) return this.#ports.metrics.setConditions([]);
    const before = readInstallationStatus(this.#object['status']);
    const report = await this.#run(this.#object, before, signal);
    if (report !== undefined) await this.#writeStatus(statusOf(report, before, this.#timestamp()), before, signal);
  }

  /** Lets the installation be deleted while no operator runs, unless its removal has begun. */
  async releaseFinalizer(): Promise<void> {
    if (this.#object === undefined) return;
    const { api, clock, log } = this.#ports;
    using limit = timeLimit(SHUT_DOWN_MS);
    try {
      for (;;) {
        const object = await findObject(api, INSTALLATION, limit.signal);
        if (object === undefined || isLeaving(object)) return;
        if ((await this.#setFinalizer(object, false, limit.signal)) === 'set') return;
        await clock.sleep(CONFLICT_MS, limit.signal);
      }
    } catch (cause) {
      log.warning('finalizer not removed', { reason: reasonOf(cause) });
    }
  }

  async #run(
    object: ApiObject,
    before: InstallationStatus,
    signal: AbortSignal,
  ): Promise<InstallationReport | undefined> {
    const { spec, problems } = readSpec(object['spec']);
    const accepted = before.computed === undefined ? undefined : readSpec(before.computed).spec;
    const deletionPolicy = (spec ?? accepted)?.deletionPolicy ?? 'Orphan';
    if (isLeaving(object)) return this.#delete(object, { deletionPolicy, spec: accepted ?? spec ?? {} }, signal);
    await this.#setFinalizer(object, deletionPolicy === 'Remove', signal);
    const base = this.#baseReport(object);
    let facts: Awaited<ReturnType<typeof observeCluster>>;
    try {
      facts = await observeCluster(this.#ports.api, this.#ports, signal);
    } catch (cause) {
      if (!isNetplugError(cause, 'store/refused')) throw cause;
      const component = { name: 'cluster', state: 'Unknown', message: reasonOf(cause) } as const;
      return { ...base, problems, components: [component], isServing: undefined };
    }
    const servers = await this.#fanOut.count((spec ?? accepted)?.typha, facts.nodes, signal);
    facts = { ...facts, typhaReplicas: servers?.replicas };
    const wanted = spec === undefined ? undefined : acceptSpec(spec, facts);
    const isAccepted = wanted !== undefined && !('problems' in wanted);
    const refused = wanted !== undefined && 'problems' in wanted ? wanted.problems.map(invalid) : [];
    // What was accepted before stays in force until the change is valid. Pools are left as they are.
    const settings = isAccepted
      ? wanted.settings
      : accepted === undefined
        ? undefined
        : { ...settingsIn(accepted, facts), pools: [] };
    const all = [...problems, ...refused];
    if (settings === undefined) return { ...base, problems: all, isServing: false };
    const areAgentsHeld = HOLD_AGENTS in (object.metadata.annotations ?? {});
    const result = await this.#apply(
      { ...settings, areAgentsHeld, isOperated: true },
      { mayPrune: all.length === 0 },
      signal,
    );
    const serving = result.workloads.map(({ isServing }) => isServing);
    return {
      ...base,
      problems: [...all, ...result.problems],
      components: result.components,
      isServing: serving.includes(false) ? false : serving.includes(undefined) ? undefined : serving.length > 0,
      warnings: [
        ...(isAccepted ? wanted.warnings : []),
        ...facts.unreadablePools.map(({ name, problem }) => `IPPool "${name}" cannot be used: ${problem}`),
        ...result.warnings,
        ...(servers?.shortage === undefined ? [] : [servers.shortage]),
        ...(areAgentsHeld ? [HELD] : []),
        ...this.#ports.versions.problems(),
        ...this.#taken,
      ],
      ...(await this.#readReports(facts.nodes, signal)),
      computed: isAccepted ? wanted.settings.spec : undefined,
      fanOut: hasFanOut(settings) ? await this.#fanOut.status(facts.nodes.length, signal) : undefined,
    };
  }

  /** An operator with the roles of an older release does its other work. */
  async #readReports(nodes: readonly NodeState[], signal: AbortSignal): Promise<Pick<InstallationReport, 'reported'>> {
    const { api, clock } = this.#ports;
    try {
      return { reported: reportedNodes(await readNodeReports(api, signal), { nodes, nowMs: clock.now() }) };
    } catch (cause) {
      if (signal.aborted) throw cause;
      const warnings = [`What agents report of their nodes cannot be read: ${reasonOf(cause)}`];
      return { reported: { errors: [], uncallable: [], warnings } };
    }
  }

  async #apply(
    settings: ClusterSettings,
    { mayPrune }: { readonly mayPrune: boolean },
    signal: AbortSignal,
  ): Promise<StagesResult> {
    const inventory = await this.#inventory(signal);
    const { release } = settings;
    const { stages, holds } = await this.#fanOut.order(clusterObjects(settings), { release, inventory }, signal);
    const result = await applyStages(this.#parts, { stages, inventory, holds }, signal);
    const after = new Map(result.inventory);
    const warnings = [...result.warnings];
    const mayRemove = mayPrune && result.isComplete && result.problems.length === 0;
    if (mayRemove) {
      const desired = new Set(stages.flatMap(({ objects }) => objects.map((each) => objectName(each))));
      for (const entry of planPruning(after, desired)) {
        const live = await this.#applier.read(entry, signal);
        if (live !== undefined && isLeftAlone(live)) {
          warnings.push(`${referenceKey(entry)} is not pruned: it has the annotation ${MANAGED_ANNOTATION}`);
          continue;
        }
        // An object that another client has made again is not the operator's.
        if (live !== undefined && (entry.uid === '' || entry.uid === live.metadata.uid)) {
          this.#ports.log.info('object pruned', { object: referenceKey(entry) });
          await deleteObserved(this.#ports.api, { which: entry, live }, signal);
          this.#ports.metrics.countChange('pruned');
        }
        after.delete(referenceKey(entry));
      }
    }
    if (mayRemove && !hasFanOut(settings)) await this.#fanOut.forget(signal);
    const problem = isSameInventory(inventory, after) ? undefined : await this.#saveInventory(after, signal);
    return { ...result, warnings, problems: [...result.problems, ...(problem === undefined ? [] : [problem])] };
  }

  /** @returns undefined once the object is gone, or may go */
  async #delete(
    object: ApiObject,
    { deletionPolicy, spec }: { readonly deletionPolicy: 'Orphan' | 'Remove'; readonly spec: InstallationSpec },
    signal: AbortSignal,
  ): Promise<InstallationReport | undefined> {
    const { log, release, digests } = this.#ports;
    if (!finalizersOf(object).includes(OPERATOR_FINALIZER)) return undefined;
    if (deletionPolicy === 'Remove') {
      const facts = { release, digests, nodes: [], servesAdmission: true };
      const removal = { settings: { ...settingsIn(spec, facts), pools: [] }, inventory: await this.#inventory(signal) };
      let wait: string | undefined;
      try {
        wait = await removeInstallation(this.#parts, removal, signal);
      } catch (cause) {
        if (!isNetplugError(cause, 'store/refused')) throw cause;
        const message = `Cannot remove the installation: ${reasonOf(cause)}`;
        const problems = [{ reason: 'NotPermitted', message } as const];
        return { ...this.#baseReport(object), problems, isServing: false, removing: message };
      }
      if (wait !== undefined) return { ...this.#baseReport(object), isServing: false, removing: wait };
      log.info('installation removed');
    }
    await this.#setFinalizer(object, false, signal);
    return undefined;
  }

  #baseReport({ metadata }: ApiObject): InstallationReport {
    const { generation } = metadata as { readonly generation?: unknown };
    return {
      generation: typeof generation === 'number' ? generation : undefined,
      release: this.#ports.release,
      problems: [],
      components: [],
      isServing: false,
      warnings: [],
      computed: undefined,
    };
  }

  /** Users need the definition before they can write an installation. */
  async #ensureOwnDefinition(signal: AbortSignal): Promise<void> {
    const { plural, group } = INSTALLATIONS;
    const own = crdManifests().find((each) => referenceOf(each).name === `${plural}.${group}`);
    if (own === undefined) return;
    const digest = (await this.#inventory(signal)).get(objectName(own))?.digest;
    const ensured = await this.#applier.ensure(own, digest, signal);
    if (ensured.outcome === 'ok' && ensured.object !== undefined) this.#applier.confirm(own, ensured.object);
    if (ensured.outcome === 'problem')
      this.#ports.log.warning('definition not applied', { reason: ensured.problem.message });
  }

  async #inventory(signal: AbortSignal): Promise<Inventory> {
    const which = systemObject('ConfigMap', INVENTORY);
    const object = await this.#applier.read(which, signal);
    return object === undefined ? adoptedObjects(this.#ports.api, signal) : inventoryIn(object);
  }

  async #saveInventory(inventory: Inventory, signal: AbortSignal): Promise<ReportedProblem | undefined> {
    const object = inventoryObject(inventory, this.#ports.release);
    const which = referenceOf(object);
    try {
      const answer = await tryApply(this.#ports.api, { object, manager: OPERATOR }, signal);
      // The namespace is made in the stage that this may be the inventory of.
      if (answer.outcome === 'ok' || answer.outcome === 'not-found') return undefined;
      return { reason: 'Refused', message: `Cannot write ${referenceKey(which)}: ${answer.message}` };
    } catch (cause) {
      const problem = problemOf(which, cause);
      if (problem === undefined) throw cause;
      return problem;
    }
  }

  /** @throws store/refused */
  async #setFinalizer(object: ApiObject, isWanted: boolean, signal: AbortSignal): Promise<'set' | 'conflict'> {
    const known = finalizersOf(object);
    if (known.includes(OPERATOR_FINALIZER) === isWanted) return 'set';
    const finalizers = isWanted ? [...known, OPERATOR_FINALIZER] : known.filter((each) => each !== OPERATOR_FINALIZER);
    const { resourceVersion, name } = object.metadata;
    const body = { metadata: { resourceVersion, finalizers } };
    const answer = await this.#ports.api.patch({ collection: INSTALLATIONS, name }, { kind: 'merge', body }, signal);
    if (answer.outcome === 'ok' || answer.outcome === 'not-found') return 'set';
    if (answer.outcome === 'conflict') return 'conflict';
    throw refused('metadata.finalizers', answer.message);
  }

  async #writeStatus(status: InstallationStatus, before: InstallationStatus, signal: AbortSignal): Promise<void> {
    this.#ports.metrics.setConditions(status.conditions ?? []);
    if (isSameStatus(before, status)) return;
    const body = { apiVersion: API_VERSION, kind: 'Installation', metadata: { name: INSTALLATION_NAME }, status };
    const answer = await this.#ports.api.patch(
      { collection: INSTALLATIONS, name: INSTALLATION_NAME, subresource: 'status' },
      { kind: 'apply', body, manager: OPERATOR, force: true },
      signal,
    );
    const isWritten = answer.outcome === 'ok' || answer.outcome === 'not-found' || answer.outcome === 'conflict';
    if (!isWritten) throw refused('status', answer.message);
  }

  async #reportTaken({ why, of, changes }: TakenFields, signal: AbortSignal): Promise<void> {
    const { api, log, clock, random } = this.#ports;
    const shown = changes.slice(0, SHOWN_CHANGES);
    const more = changes.length - shown.length;
    const list = [...shown, ...(more > 0 ? [`${String(more)} more`] : [])].join('; ');
    const message = `Fields of ${referenceKey(of)} are ${why}: ${list}`;
    log.warning('fields overwritten', { object: referenceKey(of), changes: shown });
    this.#taken = [...this.#taken.filter((each) => each !== message), message].slice(-SHOWN_CHANGES);
    const key = `${referenceKey(of)} ${shown.map((change) => change.replace(/: .*/, '')).join(' ')}`;
    const lastMs = this.#eventAtMs.get(key) ?? Number.NEGATIVE_INFINITY;
    if (clock.monotonic() - lastMs < EVENT_PAUSE_MS) return;
    this.#eventAtMs.set(key, clock.monotonic());
    const uid = this.#object?.metadata.uid;
    const about = {
      apiVersion: API_VERSION,
      kind: 'Installation',
      name: INSTALLATION_NAME,
      ...(uid === undefined ? {} : { uid }),
    };
    const reason = why === 'taken over' ? 'NetplugFieldsTakenOver' : 'NetplugFieldsRestored';
    await recordEvent(
      api,
      { about, reason, message: message.slice(0, 1000), at: this.#timestamp(), id: random.id() },
      signal,
    ).catch((cause: unknown) => {
      if (!isNetplugError(cause, 'store/refused')) throw cause;
      log.warning('event not recorded', { reason: reasonOf(cause) });
    });
  }

  #timestamp(): string {
    return new Date(this.#ports.clock.now()).toISOString().replace(/\.\d+Z$/, 'Z');
  }
}

function refused(field: string, reason: string): NetplugError {
  return new NetplugError('store/refused', `Cannot write ${field} of Installation "${INSTALLATION_NAME}": ${reason}`, {
    hint: 'Apply the definition of Installation that belongs to this operator (manifests/crds.yaml)',
  });
}

function readSpec(raw: unknown): {
  readonly spec: InstallationSpec | undefined;
  readonly problems: readonly ReportedProblem[];
} {
  const decoded = decodeResource({
    apiVersion: API_VERSION,
    kind: 'Installation',
    metadata: { name: INSTALLATION_NAME },
    spec: raw ?? {},
  });
  if ('problems' in decoded) return { spec: undefined, problems: decoded.problems.map(invalid) };
  return { spec: decoded.resource.kind === 'Installation' ? decoded.resource.spec : undefined, problems: [] };
}

function invalid(problem: Parameters<typeof problemLine>[0]): ReportedProblem {
  return { reason: 'InvalidConfiguration', message: problemLine(problem) };
}

function isSameInventory(before: Inventory, after: Inventory): boolean {
  const text = (inventory: Inventory): string => JSON.stringify(inventoryObject(inventory, ''));
  return text(before) === text(after);
}
