import * as v from 'valibot';
import { tryParseJson } from '../base/try-parse-json.ts';
import { type Address, formatAddress, sameAddress, tryParseAddress } from '../net/address.ts';
import { isContainerId, isInterfaceName } from './interface-name.ts';
import type { DeclaredSidecar } from './declared-sidecar.ts';
import { endpointShape } from './endpoint-shape.ts';
import { type Attachment, handleOf } from './names.ts';
import { attachmentOf, type WorkloadEndpoint } from './workload-endpoint.ts';
import { issueText } from './read-schema.ts';

/**
 * Grants of ADD to one attachment in addition to addresses of blocks. Translation and BGP of the node use only this record,
 * because only root can write it. An endpoint in the API of the orchestrator is an annotation, which every user with access
 * to the pod can change.
 */
export interface AttachmentRecord {
  readonly attachment: Attachment;
  /** `namespace/name`, for display. */
  readonly pod: string | undefined;
  /** When the first ADD of the attachment wrote it, ISO 8601. */
  readonly at: string;
  /** Type of the address manager that assigned the addresses; `none` for addresses assigned without one. */
  readonly addressManager: string;
  readonly addresses: readonly Address[];
  /** Each with the address of the attachment to which it is translated. */
  readonly floating: readonly FloatingPair[];
  /** Switches of the network configuration, `feature_control`, that were on when this was granted. */
  readonly switches: readonly FeatureSwitch[];
  /** The pod has one. What its annotations said when it began: removing one later opens nothing. */
  readonly sidecar?: DeclaredSidecar;
  /** For policies, when the datastore has no record that stands for the attachment. */
  readonly endpoint?: WorkloadEndpoint;
}

export interface FloatingPair {
  readonly external: Address;
  /** Address of the pod, of the same family. */
  readonly internal: Address;
}

const SWITCHES = ['floating_ips', 'ip_addrs_no_ipam'] as const;
export type FeatureSwitch = (typeof SWITCHES)[number];

/** The address manager of addresses that were assigned without one. */
export const NO_MANAGER = 'none';

const address = v.pipe(
  v.string(),
  v.rawTransform<string, Address>(({ dataset, addIssue, NEVER }) => {
    const read = tryParseAddress(dataset.value);
    if (read !== undefined) return read;
    addIssue({ message: `${JSON.stringify(dataset.value)} is no IP address` });
    return NEVER;
  }),
);
const stored = v.object({
  format: v.literal(1),
  network: v.pipe(v.string(), v.nonEmpty()),
  containerID: v.pipe(v.string(), v.check(isContainerId, 'it is no container id')),
  ifName: v.pipe(v.string(), v.check(isInterfaceName, 'it is no interface name')),
  pod: v.exactOptional(v.string()),
  at: v.pipe(v.string(), v.isoTimestamp()),
  addressManager: v.pipe(v.string(), v.nonEmpty()),
  addresses: v.pipe(v.array(address), v.minLength(1)),
  floatingIPs: v.array(v.object({ external: address, internal: address })),
  switches: v.array(v.picklist(SWITCHES)),
  sidecar: v.exactOptional(
    v.object({
      release: v.string(),
      isRedirected: v.boolean(),
      excludedPorts: v.array(v.number()),
      includedPorts: v.exactOptional(v.array(v.number())),
    }),
  ),
  endpoint: v.exactOptional(endpointShape),
});

/** Encodes the record as one line of JSON. */
export function encodeAttachmentRecord(record: AttachmentRecord): string {
  const { attachment, pod, at, addressManager, addresses, floating, switches, sidecar, endpoint } = record;
  const { network, containerId: containerID, ifName } = attachment;
  const floatingIPs = floating.map(({ external, internal }) => ({
    external: formatAddress(external),
    internal: formatAddress(internal),
  }));
  const identity = { network, containerID, ifName, ...(pod === undefined ? {} : { pod }) };
  const given = {
    addressManager,
    addresses: addresses.map(formatAddress),
    floatingIPs,
    switches,
    ...(sidecar === undefined ? {} : { sidecar }),
    ...(endpoint === undefined ? {} : { endpoint }),
  };
  return `${JSON.stringify({ format: 1, ...identity, at, ...given })}\n`;
}

/** Decodes a record, or returns the problem. Never throws. */
export function decodeAttachmentRecord(text: string): AttachmentRecord | { readonly problem: string } {
  const read = v.safeParse(stored, tryParseJson(text));
  if (!read.success) return { problem: issueText(read.issues[0]) };
  const { network, containerID, ifName, pod, floatingIPs, format: _, ...rest } = read.output;
  const record = { attachment: { network, containerId: containerID, ifName }, pod, floating: floatingIPs, ...rest };
  const problem = inconsistency(record);
  return problem === undefined ? record : { problem };
}

/** Returns why the parts of a record contradict each other; undefined when they do not. */
function inconsistency({
  floating,
  addresses,
  addressManager,
  switches,
  attachment,
  endpoint,
}: Omit<AttachmentRecord, 'pod'>): string | undefined {
  if (endpoint !== undefined && handleOf(attachmentOf(endpoint)) !== handleOf(attachment))
    return 'endpoint: it is that of another attachment';
  const stray = floating.find(({ internal }) => !addresses.some((own) => sameAddress(own, internal)));
  if (stray !== undefined) return `floatingIPs: ${formatAddress(stray.internal)} is no address of the attachment`;
  const mixed = floating.find(({ internal, external }) => internal.family !== external.family);
  if (mixed !== undefined) return `floatingIPs: ${formatAddress(mixed.external)} is of the other family`;
  if (floating.length > 0 && !switches.includes('floating_ips')) return 'switches: floating_ips is missing';
  if (addressManager === NO_MANAGER && !switches.includes('ip_addrs_no_ipam'))
    return 'switches: ip_addrs_no_ipam is missing';
  return undefined;
}
