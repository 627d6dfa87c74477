import { isDeepStrictEqual } from 'node:util';
import { ownValue } from '../../../base/own-value.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { canonical, isListOfRecords, type FieldStep } from '../../../kube/objects/diff.ts';
import { flatOf } from '../../../kube/objects/structured.ts';
import type { ManifestEdit } from './edit.ts';
import { structuredObjects } from './find-edits.ts';

export interface AppliedEdits {
  readonly objects: readonly Manifest[];
  /** Edits that the objects have now. */
  readonly kept: readonly ManifestEdit[];
  readonly refused: readonly RefusedEdit[];
}

export interface RefusedEdit {
  readonly edit: ManifestEdit;
  /** A clause. */
  readonly reason: string;
}

/** Makes the edits in the objects of another release. An edit of a value that the release has changed is refused. */
export function applyEdits(target: readonly Manifest[], edits: readonly ManifestEdit[]): AppliedEdits {
  const objects = new Map(structuredObjects(target));
  const kept: ManifestEdit[] = [];
  const refused: RefusedEdit[] = [];
  for (const edit of edits) {
    const object = objects.get(edit.object);
    const outcome = edit.path.length === 0 ? applyWhole(edit, object) : applyInside(edit, object);
    if ('reason' in outcome) refused.push({ edit, reason: outcome.reason });
    else {
      kept.push(edit);
      if (outcome.value === undefined) objects.delete(edit.object);
      else objects.set(edit.object, outcome.value);
    }
  }
  return { objects: [...objects.values()].map(flatOf), kept, refused };
}

type Outcome<T> = { readonly value: T | undefined } | { readonly reason: string };

function applyWhole({ is }: ManifestEdit, object: Manifest | undefined): Outcome<Manifest> {
  if (is === undefined) return { value: undefined };
  if (object !== undefined && !isDeepStrictEqual(object, is))
    return { reason: 'this release has another object of that name' };
  return isRecord(is) ? { value: is } : { reason: 'it is no object' };
}

function applyInside(edit: ManifestEdit, object: Manifest | undefined): Outcome<Manifest> {
  if (object === undefined) return { reason: 'this release has no such object' };
  const changed = changeAt(object, edit.path, edit);
  if ('reason' in changed) return changed;
  return isRecord(changed.value) ? { value: changed.value } : { reason: 'it is no object' };
}

function changeAt(value: unknown, path: readonly FieldStep[], edit: ManifestEdit): Outcome<unknown> {
  const [step, ...rest] = path;
  if (step === undefined) {
    if (isDeepStrictEqual(value, edit.is)) return { value };
    return isDeepStrictEqual(value, edit.was)
      ? { value: edit.is }
      : { reason: 'this release has changed the same value' };
  }
  if (typeof step === 'string') {
    // An object that an edit adds to is made when this release has none.
    const record = value === undefined && edit.was === undefined ? {} : value;
    if (!isRecord(record)) return { reason: 'this release has no such field' };
    const inner = changeAt(ownValue(record, step), rest, edit);
    if ('reason' in inner) return inner;
    const { [step]: _, ...others } = record;
    if (inner.value === undefined) return { value: others };
    return {
      value: Object.hasOwn(record, step) ? { ...record, [step]: inner.value } : { ...others, [step]: inner.value },
    };
  }
  const list = value === undefined && edit.was === undefined ? [] : value;
  if (!isListOfRecords(list)) return { reason: 'this release has no such list' };
  const index = list.findIndex((element) => isAt(element, step));
  const inner = changeAt(list[index], rest, edit);
  if ('reason' in inner) return inner;
  if (inner.value === undefined) return { value: index === -1 ? list : list.toSpliced(index, 1) };
  return { value: index === -1 ? [...list, inner.value] : list.with(index, inner.value as Manifest) };
}

function isAt(element: Manifest, step: Exclude<FieldStep, string>): boolean {
  return 'key' in step ? ownValue(element, step.key) === step.is : canonical(element) === step.element;
}
