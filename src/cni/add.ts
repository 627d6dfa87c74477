import { Undo } from '../base/undo.ts';
import type { PodNetwork } from '../dataplane/kernel.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, callFacts, type CniPorts, refuseOrchestrator } from './call.ts';
import { waitForGates } from './gates.ts';
import { namePods } from './name-pods.ts';
import { firstDifference, isOwnLink, planEndpoint, planPodNetwork, resultOf } from './pod-network.ts';
import { askOrchestrator } from './ask-orchestrator.ts';
import { recordAttachment } from './record-attachment.ts';
import { shapeBandwidth } from './shape-bandwidth.ts';
import { warnAboutFloatingIps } from './warn-floating.ts';
import type { CniResult } from './result.ts';

/**
 * Gives one pod its addresses, link and routes. All of it exists when this returns, none of it when it throws; calling
 * again for the same attachment returns what is there, after checking it, and mends it where it is broken.
 * @throws kernel/*, ipam/*, store/*, cni/record-failed, gate/not-ready, netconf/needs-orchestrator, and what a delegated plugin throws
 */
export async function add(ports: CniPorts, source: AddressSource, told: CniCall): Promise<CniResult> {
  const { kernel, log, watch } = ports;
  const { config, signal } = told;
  refuseOrchestrator(config);
  kernel.assertNetns(told.netns);
  if (config.readinessGates.length > 0) {
    await watch.time('gates', async () =>
      waitForGates(config.readinessGates, { probe: ports.probeGate, clock: ports.clock, signal }),
    );
  }
  const call = await askOrchestrator(ports, told);
  await using undo = new Undo();

  const grant = await source.acquire(call, (addresses) => planEndpoint(call, addresses));
  undo.defer(async () => grant.takeBack(call.cleanupSignal));

  const forget = await recordAttachment(ports, call, grant.addresses);
  undo.defer(forget);

  const network = planPodNetwork(call, grant.addresses);
  const { mtu, isNew } = await connect(ports, network, signal).catch(async (cause: unknown) => {
    throw await namePods(ports, call, cause);
  });
  if (isNew) {
    undo.defer(async () => {
      await kernel.remove(network.hostLinkName, network.owner);
    });
  }
  const result = resultOf(network, { mtu, dns: grant.dns });
  if (isNew) await shapeBandwidth(ports, call, result);
  undo.keep();
  if (isNew) await warnAboutFloatingIps(ports, call);

  log.info(isNew ? 'pod connected' : 'pod was connected already', {
    ...callFacts(call),
    addresses: result.ips.map(({ address }) => address),
    ...grant.facts,
    ...watch.facts(),
  });
  return result;
}

async function connect(
  { kernel, log, readOfferedMtu }: CniPorts,
  network: PodNetwork,
  signal: AbortSignal,
): Promise<{ mtu: number; isNew: boolean }> {
  const state = kernel.observe(network);
  const { hostLink } = state;
  if (hostLink !== undefined && isOwnLink(hostLink, network)) {
    const difference = firstDifference(network, state);
    if (difference === undefined) return { mtu: hostLink.mtu, isNew: false };
    log.warning('pod network broken, made anew', { difference });
    await kernel.remove(network.hostLinkName, network.owner);
  }
  const { mtu } = await kernel.apply({ ...network, mtu: network.mtu ?? readOfferedMtu() }, signal);
  return { mtu, isNew: true };
}
