import { isNetplugError, NetplugError } from '../base/errors.ts';
import { fullId, type ResourceId, showResourceId } from '../model/resource-id.ts';

export function resourceExists(which: ResourceId): NetplugError {
  return new NetplugError('resource/exists', `Cannot create ${showResourceId(which)}: it exists already`, {
    hint: 'Replace it, or choose another name',
    facts: resourceFacts(which),
  });
}

export function resourceNotFound(which: ResourceId): NetplugError {
  return new NetplugError('resource/not-found', `Cannot find ${showResourceId(which)}: there is none of that name`, {
    hint: `Create it, or list the existing ones with netplugctl get ${which.kind}`,
    facts: resourceFacts(which),
  });
}

export function resourceChanged(which: ResourceId): NetplugError {
  return new NetplugError(
    'resource/changed',
    `Cannot change ${showResourceId(which)}: it was changed since it was read`,
    {
      hint: 'Read it again and repeat the change',
      facts: resourceFacts(which),
    },
  );
}

export function fieldConflict(
  which: ResourceId,
  held: readonly { readonly field: string; readonly owner: string }[],
): NetplugError {
  const list = held.map(({ field, owner }) => `${field} ("${owner}")`).join(', ');
  const message = `Cannot apply ${showResourceId(which)}: other managers own some of its fields: ${list}`;
  return new NetplugError('resource/field-conflict', message, {
    hint: 'Leave these fields out, write their present values, or take them over with --force-conflicts',
    facts: { ...resourceFacts(which), fields: held.map(({ field }) => field), owners: held.map(({ owner }) => owner) },
  });
}

/** Returns the error for a change without an expected version that keeps conflicting. */
export function resourceContested(which: ResourceId): NetplugError {
  return new NetplugError('store/conflict', `Cannot change ${showResourceId(which)}: other programs keep changing it`, {
    hint: 'Find the program that writes it',
    facts: resourceFacts(which),
  });
}

/** Reports whether the resource was created, changed or deleted since it was read. */
export function isOvertaken(cause: unknown): boolean {
  return isNetplugError(cause, 'resource/exists', 'resource/changed', 'resource/not-found');
}

/** Returns the facts of an error about a resource. */
export function resourceFacts(which: ResourceId): { kind: string; namespace?: string; name: string } {
  return { ...fullId(which) };
}
