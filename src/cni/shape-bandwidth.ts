import { Undo } from '../base/undo.ts';
import { type Bandwidth, decodeBandwidth } from '../config/bandwidth.ts';
import { boundsFor } from '../dataplane/rate-limits.ts';
import type { CniCall, CniPorts } from './call.ts';
import { callDelegate } from './delegate.ts';
import { type CniResult, renderResult } from './result.ts';

const PLUGIN = 'bandwidth';

/**
 * Returns the limits of the pod's `orch/*-bandwidth` annotations. None apply unless the network's configuration list
 * contains the standard bandwidth plugin: the runtime then calls its DEL with that of the list.
 */
export function bandwidthOf({ readInstalledList, log }: CniPorts, call: CniCall): Bandwidth | undefined {
  const wanted = call.orchPod === undefined ? undefined : decodeBandwidth(call.orchPod.facts);
  if (wanted === undefined) return undefined;
  const listed = readInstalledList(call.attachment.network)?.plugins;
  if (listed?.includes(PLUGIN) === true) return wanted;
  const reason = listed === undefined ? 'the network has no configuration list' : 'its list has no bandwidth plugin';
  log.info('bandwidth annotations ignored', { network: call.attachment.network, reason });
  return undefined;
}

/** Calls the bandwidth plugin for a new link, because runtimes do not know the annotations. */
export async function shapeBandwidth(
  ports: CniPorts,
  call: CniCall,
  { bandwidth, result, isRecreated }: { bandwidth: Bandwidth; result: CniResult; isRecreated: boolean },
): Promise<void> {
  const ask = async (command: string, signal: AbortSignal): Promise<unknown> =>
    callDelegate(ports.execDelegate, {
      plugin: PLUGIN,
      path: call.path,
      command,
      conf: confOf(call, bandwidth, { result, burstMs: ports.bandwidthBurstMs }),
      signal,
    });
  await using undo = new Undo();
  undo.defer(async () => void (await ask('DEL', call.cleanupSignal)));
  // Removes the device that the plugin has made for the link before. With it ADD would fail.
  if (isRecreated) await ask('DEL', call.signal);
  await ask('ADD', call.signal);
  undo.disarm();
}

function confOf(
  { config }: CniCall,
  { ingressRate, egressRate }: Bandwidth,
  { result, burstMs }: { readonly result: CniResult; readonly burstMs: number },
): Record<string, unknown> {
  const { name, cniVersion } = config;
  const burst = (rate: number): number => 8 * boundsFor(rate / 8, burstMs).burstBytes;
  return {
    cniVersion,
    name,
    type: PLUGIN,
    ...(ingressRate === undefined ? {} : { ingressRate, ingressBurst: burst(ingressRate) }),
    ...(egressRate === undefined ? {} : { egressRate, egressBurst: burst(egressRate) }),
    prevResult: renderResult(result, cniVersion),
  };
}
