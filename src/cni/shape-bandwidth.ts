import { Undo } from '../base/undo.ts';
import { type Bandwidth, decodeBandwidth } from '../config/bandwidth.ts';
import type { CniCall, CniPorts } from './call.ts';
import { callDelegate } from './delegate.ts';
import { type CniResult, renderResult } from './result.ts';

const PLUGIN = 'bandwidth';
/** Bits; what runtimes pass when nobody sets a burst. */
const BURST = 4_294_967_295;

/**
 * Has the standard bandwidth plugin carry out `orch/*-bandwidth` annotations, which runtimes do not know, if its entry
 * stands in the network's list; without the entry they do nothing. Its DEL comes with the list's own, from the runtime.
 */
export async function shapeBandwidth(ports: CniPorts, call: CniCall, result: CniResult): Promise<void> {
  const wanted = call.orchPod === undefined ? undefined : decodeBandwidth(call.orchPod.facts);
  if (wanted === undefined) return;
  const listed = ports.readPluginList(call.attachment.network);
  if (listed?.includes(PLUGIN) !== true) {
    const state = listed === undefined ? 'no list of that network was found' : 'its list has no bandwidth entry';
    ports.log.info('bandwidth annotations do nothing', { network: call.attachment.network, state });
    return;
  }
  const ask = async (command: string, signal: AbortSignal): Promise<unknown> =>
    callDelegate(ports.execDelegate, {
      plugin: PLUGIN,
      path: call.path,
      command,
      conf: confOf(call, wanted, result),
      signal,
    });
  await using undo = new Undo();
  undo.defer(async () => void (await ask('DEL', call.cleanupSignal)));
  await ask('ADD', call.signal);
  undo.keep();
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
