import { Undo } from '../base/undo.ts';
import { type Bandwidth, decodeBandwidth } from '../config/bandwidth.ts';
import type { CniCall, CniPorts } from './call.ts';
import { callDelegate } from './delegate.ts';
import { type CniResult, renderResult } from './result.ts';

const PLUGIN = 'bandwidth';
/** Bits. The value that runtimes pass when no burst is configured. */
const BURST = 4_294_967_295;

/**
 * Returns the limits of the pod's `orch/*-bandwidth` annotations. None apply unless the network's configuration list
 * contains the standard bandwidth plugin: the runtime then calls its DEL with that of the list.
 */
export function bandwidthOf({ readPluginList, log }: CniPorts, call: CniCall): Bandwidth | undefined {
  const wanted = call.orchPod === undefined ? undefined : decodeBandwidth(call.orchPod.facts);
  if (wanted === undefined) return undefined;
  const listed = readPluginList(call.attachment.network);
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
      conf: confOf(call, bandwidth, result),
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
  result: CniResult,
): Record<string, unknown> {
  const { name, cniVersion } = config;
  return {
    cniVersion,
    name,
    type: PLUGIN,
    ...(ingressRate === undefined ? {} : { ingressRate, ingressBurst: BURST }),
    ...(egressRate === undefined ? {} : { egressRate, egressBurst: BURST }),
    prevResult: renderResult(result, cniVersion),
  };
}
