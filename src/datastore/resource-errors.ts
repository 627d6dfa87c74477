import { NetplugError } from '../base/errors.ts';
import { fullId, type ResourceId, showResourceId } from '../model/resource-id.ts';

export function resourceExists(which: ResourceId): NetplugError {
  return new NetplugError('resource/exists', `Cannot create ${showResourceId(which)}: it exists already`, {
    hint: 'Replace it, or choose another name',
    facts: resourceFacts(which),
  });
}

export function resourceNotFound(which: ResourceId): NetplugError {
  return new NetplugError('resource/not-found', `Cannot find ${showResourceId(which)}: there is none of that name`, {
    hint: `Create it, or list what there is with netplugctl get ${which.kind}`,
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
  const message = `Cannot apply ${showResourceId(which)}: others have written fields of it: ${list}`;
  return new NetplugError('resource/field-conflict', message, {
    hint: 'Leave these fields out, write what the others wrote, or take the fields over by force',
    facts: { ...resourceFacts(which), fields: held.map(({ field }) => field), owners: held.map(({ owner }) => owner) },
  });
}

/** Of a change that names no version, and finds another each time. */
export function resourceContested(which: ResourceId): NetplugError {
  return new NetplugError('store/conflict', `Cannot change ${showResourceId(which)}: others keep changing it`, {
    hint: 'Find out who else writes it',
    facts: resourceFacts(which),
  });
}

/** What is known by its kind and name, as facts of an error. */
export function resourceFacts(which: ResourceId): { kind: string; namespace?: string; name: string } {
  return { ...fullId(which) };
}
