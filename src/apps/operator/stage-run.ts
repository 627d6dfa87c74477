import { isNetplugError, reasonOf } from '../../base/errors.ts';
import type { Manifest } from '../../model/manifest.ts';
import { isConditionTrue } from '../../kube/status/conditions.ts';
import type { ObjectStage } from '../../install/cluster/cluster-objects.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { InstallationComponent } from '../../model/installation-status.ts';
import type { ReportedProblem } from './installation-report.ts';
import type { Inventory, InventoryEntry } from './inventory.ts';
import { digestOf, type Ensured, type ObjectApplier } from './object-applier.ts';
import { type ObjectReference, referenceKey, referenceOf } from '../../kube/objects/reference.ts';
import { absentWorkload, unreadableWorkload, type WorkloadStatus, workloadStatus } from './workload-status.ts';

export interface StagePorts {
  readonly applier: ObjectApplier;
  /** Returns the pods of netplug. Called only when a workload is not rolled out. @throws store/* */
  readonly listPods: (signal: AbortSignal) => Promise<readonly ApiObject[]>;
  /** Called before objects are created that the inventory does not have. */
  readonly saveInventory: (inventory: Inventory, signal: AbortSignal) => Promise<ReportedProblem | undefined>;
  readonly now: () => number;
}

/** Outcome of applying all stages. */
export interface StagesResult {
  readonly components: readonly InstallationComponent[];
  readonly workloads: readonly WorkloadStatus[];
  readonly problems: readonly ReportedProblem[];
  readonly warnings: readonly string[];
  readonly inventory: Inventory;
  /** Whether every stage is in use. */
  readonly isComplete: boolean;
}

const WORKLOADS = ['DaemonSet', 'Deployment'];

export interface StagesToApply {
  readonly stages: readonly ObjectStage[];
  readonly inventory: Inventory;
  /** Why a stage must not change anything yet, as a clause. */
  readonly holds?: ReadonlyMap<ObjectStage['stage'], string>;
}

/**
 * Applies the stages in order. Each waits until the one before is in use; meanwhile only objects that were applied before
 * as they are rendered now are restored.
 */
export async function applyStages(
  ports: StagePorts,
  { stages, inventory, holds }: StagesToApply,
  signal: AbortSignal,
): Promise<StagesResult> {
  const run = new StageRun(ports, inventory);
  let wait: string | undefined;
  for (const stage of stages) {
    const isInUse = await run.apply(stage, wait ?? holds?.get(stage.stage), signal);
    if (!isInUse) wait ??= `waits for stage "${stage.stage}"`;
  }
  return { ...run.result(), isComplete: wait === undefined };
}

class StageRun {
  readonly #ports: StagePorts;
  readonly #inventory: Map<string, InventoryEntry>;
  readonly #components: InstallationComponent[] = [];
  readonly #workloads: WorkloadStatus[] = [];
  readonly #problems: ReportedProblem[] = [];
  readonly #warnings: string[] = [];
  #pods: readonly ApiObject[] | undefined;

  constructor(ports: StagePorts, inventory: Inventory) {
    this.#ports = ports;
    this.#inventory = new Map(inventory);
  }

  result(): Omit<StagesResult, 'isComplete'> {
    return {
      components: this.#components,
      workloads: this.#workloads,
      problems: this.#problems,
      warnings: this.#warnings,
      inventory: this.#inventory,
    };
  }

  /** Applies the objects of a stage, and reports whether they are in use. */
  async apply({ stage, objects }: ObjectStage, hold: string | undefined, signal: AbortSignal): Promise<boolean> {
    if (hold === undefined && !(await this.#register(objects, signal))) return false;
    const waits: string[] = [];
    let hasProblem = false;
    let isInUse = true;
    for (const object of objects) {
      const which = referenceOf(object);
      const key = referenceKey(which);
      const known = this.#inventory.get(key);
      const isPending = hold !== undefined && known?.digest !== digestOf(object);
      const ensured = isPending
        ? await this.#look(which, signal)
        : await this.#ports.applier.ensure(object, known?.digest, signal);
      if (ensured.outcome === 'ok' && !isPending)
        this.#inventory.set(key, { ...which, uid: ensured.uid, digest: digestOf(object) });
      if (ensured.outcome === 'problem') this.#problems.push(ensured.problem);
      if (ensured.outcome === 'unmanaged') this.#warnings.push(ensured.warning);
      hasProblem ||= ensured.outcome === 'problem';
      const wait = isPending ? hold : undefined;
      if (WORKLOADS.includes(which.kind)) {
        const status = pending(await this.#workload(which, ensured, signal), wait);
        this.#workloads.push(status);
        this.#components.push(status.component);
        isInUse &&= status.isInUse;
        continue;
      }
      const why = wait ?? waitOf(which, ensured);
      if (why !== undefined) waits.push(why);
      else if ('object' in ensured && ensured.object !== undefined) this.#ports.applier.confirm(object, ensured.object);
    }
    const isWorkload = objects.some(({ kind }) => WORKLOADS.includes(String(kind)));
    if (!isWorkload && objects.length > 0) this.#components.push(stageComponent(stage, waits, hasProblem));
    return isInUse && waits.length === 0 && !hasProblem;
  }

  /** Notes new objects in the inventory before they exist, so that none is forgotten. */
  async #register(objects: readonly Manifest[], signal: AbortSignal): Promise<boolean> {
    const fresh = objects.map(referenceOf).filter((which) => !this.#inventory.has(referenceKey(which)));
    if (fresh.length === 0) return true;
    for (const which of fresh) this.#inventory.set(referenceKey(which), { ...which, uid: '', digest: '' });
    const problem = await this.#ports.saveInventory(this.#inventory, signal);
    if (problem !== undefined) this.#problems.push(problem);
    return problem === undefined;
  }

  async #look(which: ObjectReference, signal: AbortSignal): Promise<Ensured> {
    try {
      const object = await this.#ports.applier.read(which, signal);
      if (object === undefined) return { outcome: 'waiting', message: `${referenceKey(which)} does not exist yet` };
      return { outcome: 'ok', uid: object.metadata.uid ?? '', object };
    } catch (cause) {
      if (!isNetplugError(cause, 'store/refused')) throw cause;
      return { outcome: 'unreadable', message: `Cannot read ${referenceKey(which)}: ${reasonOf(cause)}` };
    }
  }

  async #workload(which: ObjectReference, ensured: Ensured, signal: AbortSignal): Promise<WorkloadStatus> {
    const { name } = which;
    if (ensured.outcome === 'waiting') return absentWorkload(name, ensured.message);
    if (ensured.outcome === 'unreadable') return unreadableWorkload(name, ensured.message);
    if (ensured.outcome === 'problem') {
      const live = await this.#look(which, signal);
      return live.outcome === 'ok'
        ? this.#workload(which, live, signal)
        : absentWorkload(name, ensured.problem.message);
    }
    const object = ensured.object ?? (await this.#ports.applier.read(which, signal));
    if (object === undefined) return absentWorkload(name, `${referenceKey(which)} was deleted`);
    const quick = workloadStatus(name, { object, pods: [], now: this.#ports.now() });
    if (quick.component.state === 'Ready') return quick;
    try {
      this.#pods ??= await this.#ports.listPods(signal);
    } catch (cause) {
      if (!isNetplugError(cause, 'store/refused')) throw cause;
      return {
        ...quick,
        component: { ...quick.component, state: 'Unknown', message: `Cannot list its pods: ${reasonOf(cause)}` },
      };
    }
    return workloadStatus(name, { object, pods: this.#pods, now: this.#ports.now() });
  }
}

function pending(status: WorkloadStatus, wait: string | undefined): WorkloadStatus {
  if (wait === undefined) return status;
  const { component } = status;
  const state = component.state === 'Ready' ? 'Progressing' : component.state;
  const message = component.message === undefined ? wait : `${wait}; ${component.message}`;
  return { ...status, isInUse: false, component: { ...component, state, message } };
}

/** Returns what an object that is no workload is waited for; undefined when it is in use. */
function waitOf(which: ObjectReference, ensured: Ensured): string | undefined {
  if (ensured.outcome === 'waiting' || ensured.outcome === 'unreadable') return ensured.message;
  if (ensured.outcome === 'problem') return undefined;
  if (which.kind !== 'CustomResourceDefinition' || ensured.object === undefined) return undefined;
  return isConditionTrue(ensured.object, 'Established') ? undefined : `${referenceKey(which)} is not established yet`;
}

function stageComponent(name: string, waits: readonly string[], hasProblem: boolean): InstallationComponent {
  if (hasProblem) return { name, state: 'Failing', message: 'not applied completely' };
  const [first] = waits;
  if (first === undefined) return { name, state: 'Ready' };
  const state = waits.some((wait) => wait.startsWith('Cannot read')) ? 'Unknown' : 'Progressing';
  return { name, state, message: waits.length === 1 ? first : `${first} and ${String(waits.length - 1)} more` };
}
