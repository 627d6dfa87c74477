import type { Mode } from '../../../base/mode.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import type { Io } from '../ports.ts';
import { isReadOnly } from './refuse-read-only.ts';
import type { WrittenFile } from './resource-files.ts';

/** The manager that owns the applied fields, and whether it takes over fields of other managers. */
export interface Owning {
  /** The tool itself unless given. */
  readonly manager: string | undefined;
  readonly force: boolean;
}

/** Applies the fields of a file as they are written, and returns what that makes. @throws resource/field-conflict */
export type ApplyFields = (mode: Mode, signal: AbortSignal) => Promise<AnyResource>;

/**
 * Returns how the datastore applies what a file says, if it knows who wrote which field. Undefined for what netplug or the
 * orchestrator keeps: that may only be written as it is.
 */
export function fieldsOf(
  store: ResourceStore,
  { resource, raw }: WrittenFile,
  owning: Owning,
): ApplyFields | undefined {
  const { fieldOwnership } = store;
  if (fieldOwnership === undefined || resource.kind === 'Node' || isReadOnly(resourceIdOf(resource))) return undefined;
  // Without the defaults that decoding has added.
  const written = { ...resource, spec: isRecord(raw) ? raw['spec'] : undefined };
  const wish = { resource: written, manager: owning.manager ?? 'netplugctl', force: owning.force };
  return async (mode, signal) => fieldOwnership.apply({ ...wish, mode }, signal);
}

/** Warns that the datastore does not record managers, when options name one. */
export function warnIfOwnerless(
  { stderr }: Pick<Io, 'stderr'>,
  store: ResourceStore,
  { manager, force }: Owning,
): void {
  const isAsked = force || manager !== undefined;
  if (isAsked && store.fieldOwnership === undefined) stderr('warning: this datastore keeps no owners of fields\n');
}
