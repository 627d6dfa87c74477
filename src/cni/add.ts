import { Undo } from '../base/undo.ts';
import type { PodNetwork } from '../dataplane/kernel.ts';
import type { Address } from '../net/address.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, callFacts, type CniPorts, assertOrchestratorAccess } from './call.ts';
import { waitForGates } from './gates.ts';
import { explainAddressConflict } from './address-conflict.ts';
import { firstDifference, isOwnLink, planEndpoint, planPodNetwork, resultOf } from './pod-network.ts';
import { ownLinkName } from './link-name.ts';
import { withPodFacts } from './with-pod-facts.ts';
import { logEnforcement, StartedEnforcement } from './pod-isolation.ts';
import { recordAttachment } from './record-attachment.ts';
import { bandwidthOf, shapeBandwidth } from './shape-bandwidth.ts';
import { warnAboutFloatingIps } from './warn-floating.ts';
import type { CniResult } from './result.ts';

/**
 * Connects one pod: assigns its addresses and creates its link and routes. Undoes all of it when a step fails.
 * Idempotent: a second ADD of the same attachment returns the same result, and recreates a link that is broken.
 * @throws kernel/*, ipam/*, store/*, orch/not-found, annotation/invalid, delegate/*, gate/not-ready, cni/record-failed,
 * netconf/needs-orchestrator
 */
export async function add(ports: CniPorts, source: AddressSource, call: CniCall): Promise<CniResult> {
  const { kernel, log, stopwatch } = ports;
  const { config, signal } = call;
  assertOrchestratorAccess(config);
  kernel.assertNetns(call.netns);
  if (config.readinessGates.length > 0) {
    await stopwatch.time('gates', async () =>
      waitForGates(config.readinessGates, { probe: ports.probeGate, clock: ports.clock, signal }),
    );
  }
  const callWithPod = await withPodFacts(ports, call);
  const hostLinkName = await ownLinkName(ports, callWithPod);
  await using undo = new Undo();

  const networkOf = (addresses: readonly Address[]): PodNetwork => planPodNetwork(callWithPod, addresses, hostLinkName);
  // Starts when the addresses are known, and is awaited below. Rules match the interface by name, so they can be written before the link exists.
  const enforcement = new StartedEnforcement(ports, callWithPod, networkOf);
  const assigned = await source
    .assign(
      callWithPod,
      (addresses) => planEndpoint(callWithPod, networkOf(addresses)),
      (addresses) => void enforcement.start(addresses),
    )
    .catch(async (cause: unknown) => {
      await enforcement.stop(callWithPod.cleanupSignal);
      throw cause;
    });
  undo.unless(async () => (await assigned.isTakenOver?.(callWithPod.cleanupSignal)) === true);
  undo.defer(async () => assigned.rollBack(callWithPod.cleanupSignal));
  const network = networkOf(assigned.addresses);
  const enforced = enforcement.start(assigned.addresses);
  undo.defer(async () => enforcement.stop(callWithPod.cleanupSignal));

  const restoreRecord = await recordAttachment(ports, callWithPod, network);
  undo.defer(restoreRecord);

  const bandwidth = bandwidthOf(ports, callWithPod);
  const { mtu, isNew, isRecreated } = await ensureLink(ports, network, {
    isLimited: bandwidth !== undefined,
    signal,
  }).catch(async (cause: unknown) => {
    throw await explainAddressConflict(ports, callWithPod, cause);
  });
  if (isNew) undo.defer(async () => void (await kernel.remove(network.hostLinkName, network.owner)));
  const result = resultOf(network, { mtu, dns: assigned.dns });
  if (isNew && bandwidth !== undefined) await shapeBandwidth(ports, callWithPod, { bandwidth, result, isRecreated });
  logEnforcement(ports, callWithPod, await enforced);
  undo.disarm();
  // Runs after the point of no return; logs its own failures.
  if (isNew) await warnAboutFloatingIps(ports, callWithPod);

  log.info(isNew ? 'pod connected' : 'pod already connected', {
    ...callFacts(callWithPod),
    addresses: result.ips.map(({ address }) => address),
    ...assigned.facts,
    ...stopwatch.facts(),
  });
  return result;
}

/** `isNew` reports whether the call created the link, `isRecreated` also whether the pod had one. */
interface EnsuredLink {
  readonly mtu: number;
  readonly isNew: boolean;
  readonly isRecreated: boolean;
}

/**
 * Returns the pod's link, creating it unless it is there as planned. A link with limits is created again, because an ADD that
 * was killed may have set none.
 */
async function ensureLink(
  { kernel, log, readOfferedMtu }: CniPorts,
  network: PodNetwork,
  { isLimited, signal }: { readonly isLimited: boolean; readonly signal: AbortSignal },
): Promise<EnsuredLink> {
  const state = kernel.observe(network);
  const { hostLink } = state;
  const isRecreated = hostLink !== undefined && isOwnLink(hostLink, network);
  if (isRecreated) {
    const difference =
      firstDifference(network, state) ?? (isLimited ? 'its bandwidth limits may be missing' : undefined);
    if (difference === undefined) return { mtu: hostLink.mtu, isNew: false, isRecreated: false };
    log.warning('pod network recreated', { difference });
    await kernel.remove(network.hostLinkName, network.owner);
  }
  const { mtu } = await kernel.apply({ ...network, mtu: network.mtu ?? readOfferedMtu() }, signal);
  return { mtu, isNew: true, isRecreated };
}
