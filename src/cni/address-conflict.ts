import { isNetplugError, NetplugError } from '../base/errors.ts';
import type { CniCall, CniPorts } from './call.ts';

/** Adds the names of both pods to `kernel/address-in-use`, which means that another pod uses the assigned address. Returns any other error as it is. */
export async function explainAddressConflict(
  { store, log }: CniPorts,
  call: CniCall,
  cause: unknown,
): Promise<unknown> {
  if (!isNetplugError(cause, 'kernel/address-in-use')) return cause;
  const { containerId, address } = cause.facts;
  log.error('address conflict detected', cause.facts);
  const { endpoints } = await store
    .listEndpoints(call.node, call.cleanupSignal)
    .catch(() => ({ endpoints: [] as const }));
  const user = endpoints.find(({ value }) => value.spec.containerID === containerId)?.value;
  const used = user?.spec.pod === undefined ? '' : ` pod "${user.metadata.namespace ?? ''}/${user.spec.pod}",`;
  const asked = call.pod === undefined ? 'the pod' : `pod "${call.pod.namespace}/${call.pod.name}"`;
  const { hint } = cause;
  return new NetplugError(
    'kernel/address-in-use',
    `Cannot connect ${asked}: ${String(address)} is used by${used} container "${String(containerId)}" of this node`,
    { ...(hint === undefined ? {} : { hint }), facts: cause.facts, cause },
  );
}
