import { sha256Of } from '../../base/sha256.ts';
import { isNewerRelease } from '../../base/compare-versions.ts';
import type { Mode } from '../../base/mode.ts';
import { isNetplugError, reasonOf } from '../../base/errors.ts';
import type { Manifest } from '../../model/manifest.ts';
import { labelIn } from '../../kube/objects/content.ts';
import { OPERATOR, RELEASE_LABEL } from '../../install/cluster/names.ts';
import { isLeftAlone, MANAGED_ANNOTATION, UNMANAGED } from '../../install/cluster/owned-pool.ts';
import { type ApiAnswer, isUnknownKind } from '../../kube/answers.ts';
import { type ApiObject, isLeaving } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { findObject, tryApply } from '../../kube/objects/apply.ts';
import { differenceLine, diffObjects, missingPaths } from '../../kube/objects/diff.ts';
import { hasApplied, withFieldsTakenOver } from '../../kube/objects/managers.ts';
import type { ReportedProblem } from './installation-report.ts';
import {
  collectionHolding,
  objectName,
  type ObjectReference,
  referenceKey,
  referenceOf,
} from '../../kube/objects/reference.ts';
import type { ObjectVersions } from './object-versions.ts';

/** Fields that the operator sets although another manager had written them. */
export interface TakenFields {
  readonly why: 'taken over' | 'restored';
  readonly of: ObjectReference;
  /** A line for each field. */
  readonly changes: readonly string[];
}

export interface ApplierPorts {
  readonly api: OrchApi;
  readonly versions: Pick<ObjectVersions, 'find'>;
  /** Called before the fields are written. */
  readonly onTaken: (taken: TakenFields, signal: AbortSignal) => Promise<void>;
  readonly onApplied: (how: 'created' | 'updated' | 'restored' | 'taken over') => void;
}

/** Outcome of an object. */
export type Ensured =
  /** The object is as rendered. `object` is missing when it has not changed since it was last confirmed. */
  | { readonly outcome: 'ok'; readonly uid: string; readonly object: ApiObject | undefined }
  | { readonly outcome: 'unmanaged'; readonly object: ApiObject; readonly warning: string }
  | { readonly outcome: 'waiting'; readonly message: string }
  | { readonly outcome: 'unreadable'; readonly message: string }
  | { readonly outcome: 'problem'; readonly problem: ReportedProblem };

interface Confirmed {
  readonly digest: string;
  readonly version: string;
  readonly uid: string;
}

/** Applies objects where they are not as rendered. */
export class ObjectApplier {
  readonly #ports: ApplierPorts;
  /** Objects that were in use, as rendered, at a version. */
  readonly #confirmed = new Map<string, Confirmed>();

  constructor(ports: ApplierPorts) {
    this.#ports = ports;
  }

  /**
   * Ensures that the object is as rendered. `digest` is that of the rendered object that was last applied. @throws
   * store/unavailable, store/not-leader
   */
  async ensure(desired: Manifest, digest: string | undefined, signal: AbortSignal): Promise<Ensured> {
    const which = referenceOf(desired);
    const rendered = digestOf(desired);
    const confirmed = this.#confirmed.get(referenceKey(which));
    const version = this.#ports.versions.find(collectionHolding(which), which.name);
    if (confirmed !== undefined && confirmed.digest === rendered && confirmed.version === version) {
      return { outcome: 'ok', uid: confirmed.uid, object: undefined };
    }
    let live: ApiObject | undefined;
    try {
      live = await this.read(which, signal);
    } catch (cause) {
      return unreadableBecause(which, cause);
    }
    if (live === undefined) return this.#apply(desired, 'created', signal);
    if (isLeaving(live)) {
      return { outcome: 'waiting', message: `${referenceKey(which)} is being deleted` };
    }
    if (isLeftAlone(live)) {
      const warning = `${referenceKey(which)} is left as it is: it has the annotation ${MANAGED_ANNOTATION}: ${UNMANAGED}`;
      return { outcome: 'unmanaged', object: live, warning };
    }
    if (which.kind === 'CustomResourceDefinition') {
      const [theirs = '', ours = ''] = [live, desired].map((each) => labelIn(each, RELEASE_LABEL));
      if (isNewerRelease(theirs, ours)) return ofNewerRelease(which, live, { theirs, ours });
    }
    if (!hasApplied(live, OPERATOR)) return this.#takeOver(desired, live, signal);
    if (digest !== rendered) return this.#apply(desired, 'updated', signal);
    if (missingPaths(desired, live).length === 0) return { outcome: 'ok', uid: live.metadata.uid ?? '', object: live };
    return this.#applyReported(desired, { live, why: 'restored' }, signal);
  }

  /** Notes that the object is in use at this version: it is read again when it changes. */
  confirm(desired: Manifest, { metadata }: ApiObject): void {
    const { resourceVersion: version = '', uid = '' } = metadata;
    this.#confirmed.set(objectName(desired), { digest: digestOf(desired), version, uid });
  }

  /** Returns the object; undefined when there is none. */
  async read(which: ObjectReference, signal: AbortSignal): Promise<ApiObject | undefined> {
    return findObject(this.#ports.api, which, signal);
  }

  /** Takes over what an installer has applied from a file, so that what the operator does not render goes. */
  async #takeOver(desired: Manifest, live: ApiObject, signal: AbortSignal): Promise<Ensured> {
    const which = referenceOf(desired);
    const managedFields = withFieldsTakenOver(live, OPERATOR);
    if (managedFields === undefined) return this.#applyReported(desired, { live, why: 'taken over' }, signal);
    const { resourceVersion } = live.metadata;
    const body = [
      { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
      { op: 'replace', path: '/metadata/managedFields', value: managedFields },
    ];
    const { api } = this.#ports;
    const at = { collection: collectionHolding(which), name: which.name };
    const answer = await written(which, async () => api.patch(at, { kind: 'json', body }, signal));
    if ('problem' in answer) {
      // It has changed meanwhile, and is read again.
      if (answer.problem.reason === 'Refused')
        return { outcome: 'waiting', message: `${referenceKey(which)} is being changed` };
      return { outcome: 'problem', problem: answer.problem };
    }
    return this.#applyReported(desired, { live: answer.object, why: 'taken over' }, signal);
  }

  /** Makes a dry run first, and reports which fields of other managers will be lost. */
  async #applyReported(
    desired: Manifest,
    { live, why }: { readonly live: ApiObject; readonly why: TakenFields['why'] },
    signal: AbortSignal,
  ): Promise<Ensured> {
    const which = referenceOf(desired);
    const dryRun = await this.#write(desired, 'dry-run', signal);
    if ('problem' in dryRun) return { outcome: 'problem', problem: dryRun.problem };
    const changes = diffObjects(live, dryRun.object).map((each) => differenceLine(each));
    if (changes.length > 0) await this.#ports.onTaken({ why, of: which, changes }, signal);
    return this.#apply(desired, why, signal);
  }

  async #apply(
    desired: Manifest,
    how: Parameters<ApplierPorts['onApplied']>[0],
    signal: AbortSignal,
  ): Promise<Ensured> {
    const answer = await this.#write(desired, 'apply', signal);
    if ('problem' in answer) return { outcome: 'problem', problem: answer.problem };
    this.#ports.onApplied(how);
    return { outcome: 'ok', uid: answer.object.metadata.uid ?? '', object: answer.object };
  }

  async #write(desired: Manifest, mode: Mode, signal: AbortSignal): Promise<Written> {
    const { api } = this.#ports;
    return written(referenceOf(desired), async () =>
      tryApply(api, { object: desired, manager: OPERATOR, mode }, signal),
    );
  }
}

type Written = { readonly object: ApiObject } | { readonly problem: ReportedProblem };

async function written(which: ObjectReference, write: () => Promise<ApiAnswer<ApiObject>>): Promise<Written> {
  try {
    const answer = await write();
    return answer.outcome === 'ok' ? { object: answer.value } : { problem: refused(which, answer) };
  } catch (cause) {
    const problem = problemOf(which, cause);
    if (problem === undefined) throw cause;
    return { problem };
  }
}

/** Returns a digest of a rendered object. */
export function digestOf(desired: Manifest): string {
  return sha256Of(JSON.stringify(desired)).slice(0, 16);
}

/** Returns the problem that a failed write shows; undefined for a failure that passes by itself. */
export function problemOf(which: ObjectReference, cause: unknown): ReportedProblem | undefined {
  if (isUnknownKind(cause)) {
    return {
      reason: 'DefinitionMissing',
      message: `${which.kind} is not served: apply manifests/crds.yaml of this release`,
    };
  }
  if (!isNetplugError(cause, 'store/refused')) return undefined;
  const message = `Cannot write ${referenceKey(which)}: ${cause.message} (apply the roles of the operator again: netplugctl install manifest operator)`;
  return { reason: 'NotPermitted', message };
}

/** An older definition would make the API server drop the fields from every record that is written from then on. */
function ofNewerRelease(
  which: ObjectReference,
  live: ApiObject,
  { theirs, ours }: { readonly theirs: string; readonly ours: string },
): Ensured {
  const warning = `${referenceKey(which)} is left as it is: it is of release ${theirs}, this operator is ${ours}, and an older definition would drop fields of every record. Run the operator of ${theirs}, or remove the label ${RELEASE_LABEL} of the definition to go back`;
  return { outcome: 'unmanaged', object: live, warning };
}

function unreadableBecause(which: ObjectReference, cause: unknown): Ensured {
  const problem = problemOf(which, cause);
  if (problem === undefined) throw cause;
  if (problem.reason === 'DefinitionMissing') return { outcome: 'problem', problem };
  return { outcome: 'unreadable', message: `Cannot read ${referenceKey(which)}: ${reasonOf(cause)}` };
}

function refused(
  which: ObjectReference,
  { message }: Exclude<ApiAnswer<ApiObject>, { outcome: 'ok' }>,
): ReportedProblem {
  return { reason: 'Refused', message: `Cannot write ${referenceKey(which)}: the API server refuses it: ${message}` };
}
