import * as v from 'valibot';
import { isRecord } from '../../model/read-schema.ts';

type Raw = Readonly<Record<string, unknown>>;

const entry = v.looseObject({
  manager: v.optional(v.string(), ''),
  operation: v.optional(v.string(), ''),
  subresource: v.optional(v.string(), ''),
  fieldsV1: v.optional(v.record(v.string(), v.unknown()), {}),
});
const entries = v.array(entry);
type ManagedEntry = v.InferOutput<typeof entry>;

/** Managers of programs that install objects from files. */
const INSTALLERS = ['kubectl', 'kubectl-client-side-apply', 'before-first-apply', 'netplugctl', 'helm', 'Helm'];

/** Reports whether the manager has applied the object before. */
export function hasApplied(managedFields: unknown, manager: string): boolean {
  return read(managedFields).some((each) => isApplied(each) && each.manager === manager);
}

/**
 * Returns the managers of an object after the fields that it was installed with from a file have become those of `manager`,
 * so that its next apply removes what it does not render. Undefined when there are none. Fields of other managers stay theirs.
 */
export function withFieldsTakenOver(managedFields: unknown, manager: string): readonly Raw[] | undefined {
  const all = read(managedFields);
  const taken = all.filter((each) => isInstallers(each));
  const [first] = taken;
  if (first === undefined) return undefined;
  const own = {
    ...first,
    manager,
    operation: 'Apply',
    fieldsV1: taken.map(({ fieldsV1 }) => fieldsV1).reduce((a, b) => union(a, b)),
  };
  return [...all.filter((each) => !taken.includes(each)), own].map(({ subresource, ...each }) =>
    subresource === '' ? each : { ...each, subresource },
  );
}

function isInstallers(each: ManagedEntry): boolean {
  if (each.subresource !== '' || !INSTALLERS.includes(each.manager)) return false;
  // `kubectl` also updates, on behalf of a user's edit.
  return isApplied(each) || each.manager !== 'kubectl';
}

function isApplied({ operation, subresource }: ManagedEntry): boolean {
  return operation === 'Apply' && subresource === '';
}

function union(a: Raw, b: Raw): Record<string, unknown> {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return Object.fromEntries(
    [...keys].map((key) => {
      const [left, right] = [a[key], b[key]];
      return [key, isRecord(left) && isRecord(right) ? union(left, right) : (left ?? right)];
    }),
  );
}

function read(managedFields: unknown): readonly ManagedEntry[] {
  const result = v.safeParse(entries, managedFields ?? []);
  return result.success ? result.output : [];
}
