import { decodeAnnotations } from '../config/annotations.ts';
import { FAMILIES } from '../net/address.ts';
import { IGNORED_ANNOTATIONS } from '../config/ignored-annotations.ts';
import { isStaticPodUid } from '../model/pod.ts';
import type { CniCall, CniPorts } from './call.ts';

/**
 * Reads the pod from the orchestrator's API and returns the call with it: labels, ports and service account for the
 * endpoint, annotations for the addresses. Returns the call as it is without `policy.type` "orch", or without a pod.
 * @throws annotation/invalid, orch/not-found, store/unavailable, store/refused
 */
export async function withPodFacts({ orch, log }: Pick<CniPorts, 'orch' | 'log'>, call: CniCall): Promise<CniCall> {
  const { config, pod, signal } = call;
  if (pod === undefined) return call;
  if (config.policyType !== 'orch') {
    // Debug only, because it repeats with each call. The agent logs it once per configuration.
    log.debug(IGNORED_ANNOTATIONS.event, { network: config.name, ...IGNORED_ANNOTATIONS.facts });
    return call;
  }
  const facts = await orch.readPod(pod, signal);
  const requests = decodeAnnotations(facts, config.features);
  for (const family of FAMILIES) {
    const { ipam } = config;
    const isOff = ipam.type === 'netplug-ipam' && !(family === 4 ? ipam.v4 : ipam.v6).assign;
    if (isOff && requests.pools[family] !== undefined) {
      const reason = `the network assigns no IPv${String(family)} addresses`;
      log.warning('annotation ignored', { annotation: requests.pools[family].askedBy, reason });
    }
  }
  const staticUid = isStaticPodUid(pod.uid) ? pod.uid : undefined;
  return { ...call, pod: { ...pod, uid: facts.uid, staticUid }, orchPod: { facts, requests } };
}
