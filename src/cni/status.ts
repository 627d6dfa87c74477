import { NetplugError, toNetplugError } from '../base/errors.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, assertOrchestratorAccess } from './call.ts';
import { DelegateError } from './delegate.ts';

/**
 * Checks that an ADD can be served now (CNI 1.1.0, STATUS), with what the main plugin needs besides addresses.
 * @throws status/not-ready with the reason
 */
export async function status(
  source: AddressSource,
  call: CniCall,
  assertRest: () => Promise<void> = async () => Promise.resolve(),
): Promise<void> {
  try {
    assertOrchestratorAccess(call.config);
    await source.assertReady(call);
    await assertRest();
  } catch (cause) {
    const reason = cause instanceof DelegateError ? cause : toNetplugError(cause);
    throw new NetplugError('status/not-ready', `Cannot serve ADD now: ${reason.message}`, {
      ...(reason instanceof NetplugError && reason.hint !== undefined ? { hint: reason.hint } : {}),
      cause,
    });
  }
}
