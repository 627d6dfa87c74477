import { NetplugError } from '../base/errors.ts';
import type { ResourceKind } from '../model/kinds.ts';

interface Which {
  readonly kind: ResourceKind;
  readonly name: string;
}

export function resourceExists({ kind, name }: Which): NetplugError {
  return new NetplugError('resource/exists', `Cannot create ${kind} "${name}": it exists already`, {
    hint: 'Replace it, or choose another name',
    facts: { kind, name },
  });
}

export function resourceNotFound({ kind, name }: Which): NetplugError {
  return new NetplugError('resource/not-found', `Cannot find ${kind} "${name}": there is none of that name`, {
    hint: `Create it, or list what there is with netplugctl get ${kind}`,
    facts: { kind, name },
  });
}

export function resourceChanged({ kind, name }: Which): NetplugError {
  return new NetplugError('resource/changed', `Cannot change ${kind} "${name}": it was changed since it was read`, {
    hint: 'Read it again and repeat the change',
    facts: { kind, name },
  });
}
