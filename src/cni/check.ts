import { NetplugError } from '../base/errors.ts';
import type { AttachmentRecord } from '../model/attachment-record.ts';
import type { WorkloadEndpointSpec as EndpointSpec } from '../model/workload-endpoint.ts';
import { type Address, formatAddress } from '../net/address.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, callFacts, type CniPorts } from './call.ts';
import { describeDifference } from './describe-difference.ts';
import { ownLinkName } from './link-name.ts';
import { isUnmanaged } from './record-attachment.ts';
import { firstDifference, planEndpoint, planPodNetwork } from './pod-network.ts';
import { addressesIn, type CniResult, parseResult } from './result.ts';

/** Endpoint fields that depend on the call alone. Other fields, such as labels, may change during the pod's life. */
const IDENTITY = ['node', 'network', 'containerID', 'endpoint', 'interfaceName', 'mac', 'ipNetworks'] as const;

/**
 * Compares the attachment with its previous result, the address manager, the records of node and datastore, and the
 * kernel. Throws at the first difference.
 * @throws check/mismatch, netconf/invalid when there is no previous result
 */
export async function check(ports: CniPorts, source: AddressSource, call: CniCall): Promise<void> {
  const { kernel, store, stopwatch } = ports;
  kernel.assertNetns(call.netns);
  const previous = readPrevious(call);
  const addresses = addressesIn(ownIps(previous, call));
  const { endpoint } = await store.readNodeView(call.node, call.endpointId, call.signal);
  const record = await ports.attachments.find(call.attachment);
  if (!isUnmanaged(record)) await source.check(call, addresses);
  const recorded = record === undefined ? undefined : recordDifference(record, addresses);
  if (recorded !== undefined) throw mismatch(call, recorded);

  const network = planPodNetwork(call, addresses, await ownLinkName(ports, call));
  const state = kernel.observe(network);
  const difference = previousDifference(previous, call, network.podMac) ?? firstDifference(network, state);
  if (difference !== undefined) throw mismatch(call, difference);

  const noted = endpointDifference(endpoint?.value.spec, planEndpoint(call, network).spec);
  if (noted !== undefined) throw mismatch(call, noted);
  ports.log.info('pod checked', { ...callFacts(call), ...stopwatch.facts() });
}

function recordDifference({ addresses }: AttachmentRecord, expected: readonly Address[]): string | undefined {
  const difference = describeDifference(expected.map(formatAddress), addresses.map(formatAddress));
  return difference === undefined ? undefined : `its record on the node ${difference}`;
}

function endpointDifference(found: EndpointSpec | undefined, expected: EndpointSpec): string | undefined {
  if (found === undefined) return 'its endpoint record is missing';
  const other = IDENTITY.find((field) => String(found[field]) !== String(expected[field]));
  if (other === undefined) return undefined;
  return `its endpoint record has ${other} "${String(found[other])}" instead of "${String(expected[other])}"`;
}

/** @throws netconf/invalid when the runtime gave no previous result, or none that can be read */
export function readPrevious({ config }: CniCall): CniResult {
  const previous = parseResult(config.runtime.prevResult);
  if (previous !== undefined) return previous;
  const state = config.runtime.prevResult === undefined ? 'prevResult is missing' : 'prevResult is no CNI result';
  throw new NetplugError('netconf/invalid', `Cannot check the pod: ${state}`, {
    hint: 'Call CHECK with the result of ADD as prevResult',
    facts: { paths: ['prevResult'] },
  });
}

/** Returns the addresses on this plugin's interface. Later plugins in the list may add addresses on other interfaces. */
function ownIps(previous: CniResult, { attachment }: CniCall): CniResult['ips'] {
  return previous.ips.filter(
    ({ interface: index }) => index === undefined || previous.interfaces[index]?.name === attachment.ifName,
  );
}

function previousDifference(previous: CniResult, { attachment, netns }: CniCall, mac: string): string | undefined {
  if (previous.interfaces.length === 0) return undefined;
  const link = previous.interfaces.find(({ name, sandbox }) => name === attachment.ifName && sandbox !== undefined);
  if (link === undefined) return `prevResult lists no interface "${attachment.ifName}" in a sandbox`;
  if (link.mac !== undefined && link.mac !== mac) return `prevResult has MAC ${link.mac} instead of ${mac}`;
  return link.sandbox === netns ? undefined : `prevResult has sandbox "${link.sandbox ?? ''}" instead of "${netns}"`;
}

function mismatch({ attachment }: CniCall, difference: string): NetplugError {
  return new NetplugError(
    'check/mismatch',
    `Cannot confirm the network of container "${attachment.containerId}": ${difference}`,
    {
      hint: 'Recreate the pod, or call ADD again for the same container and interface, which repairs it',
    },
  );
}
