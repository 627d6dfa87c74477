import { NetplugError } from '../../../../base/errors.ts';

/** For a patch that is malformed, or does not fit what it is applied to. */
export function patchUnusable(at: string, message: string): NetplugError {
  return new NetplugError('resource/invalid', `Cannot apply the patch: ${at === '' ? '' : `${at}: `}${message}`, {
    hint: 'Correct the patch; "netplugctl get KIND NAME -o yaml" shows what it is applied to',
  });
}
