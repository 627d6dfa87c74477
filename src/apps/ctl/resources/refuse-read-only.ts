import { NetplugError } from '../../../base/errors.ts';
import { refuseBuiltIn } from '../../../datastore/built-in.ts';
import { resourceFacts } from '../../../datastore/resource-errors.ts';
import { KINDS } from '../../../model/kinds.ts';
import { type ResourceId, showResourceId } from '../../../model/resource-id.ts';

/** Reports whether only netplug writes resources of the kind. */
export function isReadOnly({ kind }: ResourceId): boolean {
  return KINDS[kind].writtenBy !== 'user';
}

/** Refuses read-only resources, also with --dry-run. @throws resource/not-writable */
export function refuseReadOnly(which: ResourceId): void {
  refuseBuiltIn(which);
  if (!isReadOnly(which)) return;
  throw new NetplugError('resource/not-writable', `Cannot write ${showResourceId(which)}: netplug itself keeps it`, {
    hint: `Leave it out; "netplugctl get ${which.kind.toLowerCase()}" shows it`,
    facts: resourceFacts(which),
  });
}
