import { type AttachmentRecord, type FeatureSwitch, NO_MANAGER } from '../model/attachment-record.ts';
import { MAIN_INTERFACE } from '../model/workload-endpoint.ts';
import type { PodNetwork } from '../dataplane/kernel.ts';
import type { Features } from '../config/netconf.ts';
import type { CniCall, CniPorts } from './call.ts';
import { addressManagerOf, floatingPairs, planEndpoint } from './pod-network.ts';

/**
 * Writes the attachment's record on the node, when it needs one. Call it before the link is created: the agent ignores
 * records without a link, and must find the record as soon as there is one. Returns a function that restores the earlier record.
 * @throws cni/record-failed
 */
export async function recordAttachment(
  { attachments, clock }: Pick<CniPorts, 'attachments' | 'clock'>,
  call: CniCall,
  network: PodNetwork,
): Promise<() => Promise<void>> {
  const { attachment } = call;
  const before = await attachments.find(attachment);
  const record = planRecord(call, network, before?.at ?? new Date(clock.now()).toISOString());
  if (record !== undefined) await attachments.put(record);
  else if (before !== undefined) await attachments.remove(attachment);
  return async () => (before === undefined ? attachments.remove(attachment) : attachments.put(before));
}

/**
 * Returns undefined for main interfaces of pods without floating IPs and sidecar whose addresses are in netplug's blocks, which are
 * most attachments.
 */
function planRecord(call: CniCall, network: PodNetwork, at: string): AttachmentRecord | undefined {
  const { attachment, pod, config } = call;
  const { addresses } = network;
  const addressManager = addressManagerOf(call);
  const floating = floatingPairs(call, addresses);
  const endpoint = needsEndpoint(call) ? planEndpoint(call, network) : undefined;
  const sidecar = attachment.ifName === MAIN_INTERFACE ? call.orchPod?.facts.sidecar : undefined;
  const isPlain = addressManager === 'netplug-ipam' && floating.length === 0;
  if (isPlain && endpoint === undefined && sidecar === undefined) return undefined;
  return {
    attachment,
    pod: pod === undefined ? undefined : `${pod.namespace}/${pod.name}`,
    at,
    addressManager,
    addresses,
    floating,
    switches: switchesIn(config.features),
    ...(sidecar === undefined ? {} : { sidecar }),
    ...(endpoint === undefined ? {} : { endpoint }),
  };
}

/** Reports whether the attachment is no pod of the API, by whose main interface a later agent would find it. */
function needsEndpoint({ pod, attachment, config }: CniCall): boolean {
  return config.datastore.type === 'orch' && (pod === undefined || attachment.ifName !== MAIN_INTERFACE);
}

function switchesIn({ floatingIps, ipAddrsNoIpam }: Features): readonly FeatureSwitch[] {
  return [
    ...(floatingIps ? (['floating_ips'] as const) : []),
    ...(ipAddrsNoIpam ? (['ip_addrs_no_ipam'] as const) : []),
  ];
}

/** Reports whether the addresses were assigned without an address manager. */
export function isUnmanaged(record: AttachmentRecord | undefined): boolean {
  return record?.addressManager === NO_MANAGER;
}
