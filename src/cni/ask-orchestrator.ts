import { decodeAnnotations } from '../config/annotations.ts';
import { FAMILIES } from '../net/address.ts';
import { IGNORED_ANNOTATIONS } from '../config/ignored-annotations.ts';
import type { CniCall, CniPorts } from './call.ts';

/**
 * Adds what the orchestrator says of the pod: labels, ports and service account for the endpoint, annotations for the
 * addresses. Without `policy.type` "orch", or without a pod, it is not asked.
 * @throws annotation/invalid, orch/not-found, store/unavailable, store/refused
 */
export async function askOrchestrator({ orch, log }: Pick<CniPorts, 'orch' | 'log'>, call: CniCall): Promise<CniCall> {
  const { config, pod, signal } = call;
  if (pod === undefined) return call;
  if (config.policyType !== 'orch') {
    // Once per call is too often for more: the agent logs it once per configuration.
    log.debug(IGNORED_ANNOTATIONS.event, { network: config.name, ...IGNORED_ANNOTATIONS.facts });
    return call;
  }
  const facts = await orch.readPod(pod, signal);
  const wishes = decodeAnnotations(facts, config.features);
  for (const family of FAMILIES) {
    const { ipam } = config;
    const isOff = ipam.type === 'netplug-ipam' && !(family === 4 ? ipam.v4 : ipam.v6).assign;
    if (isOff && wishes.pools[family] !== undefined) {
      log.warning('annotation has no effect: the family is not assigned', { annotation: wishes.pools[family].askedBy });
    }
  }
  return { ...call, pod: { ...pod, uid: facts.uid }, orchPod: { facts, wishes } };
}
