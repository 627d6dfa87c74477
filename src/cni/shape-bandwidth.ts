import { Undo } from '../base/undo.ts';
import { type Bandwidth, decodeBandwidth } from '../config/bandwidth.ts';
import type { CniCall, CniPorts } from './call.ts';
import { callDelegate } from './delegate.ts';
import { type CniResult, renderResult } from './result.ts';

const PLUGIN = 'bandwidth';
/** Bits. The value that runtimes pass when no burst is configured. */
const BURST = 4_294_967_295;

/**
 * Calls the standard bandwidth plugin for `orch/*-bandwidth` annotations, which runtimes do not know. Does nothing
 * unless the network's configuration list contains that plugin: the runtime then calls its DEL with that of the list.
 */
export async function shapeBandwidth(ports: CniPorts, call: CniCall, result: CniResult): Promise<void> {
  const wanted = call.orchPod === undefined ? undefined : decodeBandwidth(call.orchPod.facts);
  if (wanted === undefined) return;
  const listed = ports.readPluginList(call.attachment.network);
  if (listed?.includes(PLUGIN) !== true) {
    const reason = listed === undefined ? 'the network has no configuration list' : 'its list has no bandwidth plugin';
    ports.log.info('bandwidth annotations ignored', { network: call.attachment.network, reason });
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
