import * as v from 'valibot';
import { ownValue } from '../../base/own-value.ts';
import { foreignRecord } from '../../base/foreign-record.ts';
import { isRecord } from '../../model/read-schema.ts';
import type { ApiObject } from '../objects.ts';

type Raw = Readonly<Record<string, unknown>>;

const entries = v.array(
  v.looseObject({
    manager: v.optional(v.string(), ''),
    operation: v.optional(v.string(), ''),
    subresource: v.optional(v.string(), ''),
    fieldsV1: v.optional(foreignRecord(v.string(), v.unknown()), {}),
  }),
);
type ManagedEntry = v.InferOutput<typeof entries>[number];

/** The name under which the API notes what the tool has written. */
export const MANAGER = 'netplugctl';
/** Managers of programs that install objects from files. */
const INSTALLERS = ['kubectl', 'kubectl-client-side-apply', 'before-first-apply', MANAGER, 'helm', 'Helm'];
const RELEASE_FIELD = 'f:app.kubernetes.io/version';
const PRODUCT_FIELD = 'f:app.kubernetes.io/part-of';

/** Reports whether the manager has applied the object before. */
export function hasApplied(object: ApiObject, manager: string): boolean {
  return managersOf(object).some((each) => isApplied(each) && each.manager === manager);
}

/** Returns the managers that wrote the release into the labels: they have installed the object, and its fields are meant to change. */
export function installersOf(object: ApiObject): ReadonlySet<string> {
  return new Set(releaseWriters(object).map(({ manager }) => manager));
}

/**
 * Returns the name under which an object is applied. That of its installer, so that the API removes fields that the release no
 * longer has; otherwise they would stay as those of another manager.
 */
export function managerFor(object: ApiObject | undefined): string {
  const writers = object === undefined ? [] : releaseWriters(object);
  return writers.find(({ operation }) => operation === 'Apply')?.manager ?? MANAGER;
}

/**
 * Returns the managers of an object after the fields that it was installed with from a file have become those of `manager`,
 * so that its next apply removes what it does not render. Undefined when there are none. Fields of other managers stay theirs.
 */
export function withFieldsTakenOver(object: ApiObject, manager: string): readonly Raw[] | undefined {
  const all = managersOf(object);
  const taken = all.filter(isInstallers);
  const [first] = taken;
  if (first === undefined) return undefined;
  const fieldsV1 = taken.map((each) => each.fieldsV1).reduce<Raw>(union, {});
  const own = { ...first, manager, operation: 'Apply', fieldsV1 };
  return [...all.filter((each) => !taken.includes(each)), own].map(({ subresource, ...each }) =>
    subresource === '' ? each : { ...each, subresource },
  );
}

/** A user may have removed the label with the release; then the one that every object of netplug has tells. */
function releaseWriters(object: ApiObject): readonly ManagedEntry[] {
  const writersOf = (label: string): readonly ManagedEntry[] =>
    managersOf(object).filter(({ fieldsV1: { 'f:metadata': metadata } }) => {
      const labels = isRecord(metadata) ? metadata['f:labels'] : undefined;
      return isRecord(labels) && Object.hasOwn(labels, label);
    });
  const writers = writersOf(RELEASE_FIELD);
  return writers.length > 0 ? writers : writersOf(PRODUCT_FIELD);
}

function isInstallers(each: ManagedEntry): boolean {
  if (each.subresource !== '' || !INSTALLERS.includes(each.manager)) return false;
  // `kubectl` also updates, on behalf of a user's edit.
  return isApplied(each) || each.manager !== 'kubectl';
}

function isApplied({ operation, subresource }: ManagedEntry): boolean {
  return operation === 'Apply' && subresource === '';
}

function union(a: Raw, b: Raw): Raw {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return Object.fromEntries(
    [...keys].map((key) => {
      const [left, right] = [ownValue(a, key), ownValue(b, key)];
      return [key, isRecord(left) && isRecord(right) ? union(left, right) : (left ?? right)];
    }),
  );
}

function managersOf({ metadata }: ApiObject): readonly ManagedEntry[] {
  const read = v.safeParse(entries, metadata['managedFields'] ?? []);
  return read.success ? read.output : [];
}
