import type { LinkOwner } from '../../../dataplane/kernel.ts';
import { isLinkOf } from '../../../dataplane/link-alias.ts';
import type { Stored } from '../../../datastore/allocation-store.ts';
import { type Allocation, type HeldAddress, heldAddresses } from '../../../model/ip-block.ts';
import { holderKey, interfaceKey } from '../../../model/names.ts';
import { isStaticPodUid } from '../../../model/pod.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import {
  attachmentOf,
  holderOfEndpoint,
  isEndpointOf,
  type WorkloadEndpoint,
} from '../../../model/workload-endpoint.ts';
import { formatAddress } from '../../../net/address.ts';
import { nameHolder } from './describe-holder.ts';
import { type IpamFinding, ipamFinding, type IpamState, type LocalState } from './finding.ts';

const OWN_IPAM = 'netplug-ipam';

/** Finds addresses without an attachment, and attachments without an address. */
export function attachmentFindings(state: IpamState): IpamFinding[] {
  const held = state.blocks.flatMap((block) => heldAddresses(block, (allocation) => !isTunnelAddress(allocation)));
  const known = knowledgeOf(state);
  return [
    ...held.flatMap(({ address, allocation }) => judge(state, known, { address, allocation })),
    ...endpointsWithoutAddress(state, held),
    ...strayLinks(state, held),
  ];
}

interface Knowledge {
  /** By holder. */
  readonly endpoints: ReadonlyMap<string, readonly Stored<WorkloadEndpoint>[]>;
  /**
   * Where netplug itself makes the attachments; it records endpoint and addresses in one commit. By node, because a
   * network may be served by netplug on one node and by another main plugin on the next.
   */
  readonly ownNetworks: ReadonlySet<string>;
}

function knowledgeOf({ endpoints }: IpamState): Knowledge {
  const own = endpoints.filter(({ value }) => value.spec.ipam === OWN_IPAM);
  return {
    // Several pods may claim one container in their notes.
    endpoints: Map.groupBy(own, ({ value }) => holderKey(holderOfEndpoint(value))),
    ownNetworks: new Set(own.map(({ value }) => networkOn(value.spec))),
  };
}

function judge(
  state: IpamState,
  { endpoints, ownNetworks }: Knowledge,
  { address, allocation }: HeldAddress,
): IpamFinding[] {
  const endpoint = endpoints.get(holderKey(allocation))?.find(({ value }) => isEndpointOf(value, allocation))?.value;
  const isYoung = state.nowMs - Date.parse(allocation.at) < state.graceMs;
  const subject = formatAddress(address);
  const who = `address ${subject} of ${nameHolder(allocation)} on node ${allocation.node}`;
  const here = state.local?.nodes.has(allocation.node) === true ? state.local : undefined;
  const link = here === undefined ? undefined : linkOf(here, allocation, endpoint);
  // The owner of a pod may change its annotations, which must not cause the release of an address in use.
  const isProven = !isPodThere(state, allocation) || (link === undefined && isServedHere(here, allocation.network));
  const leak = (why: string, of?: WorkloadEndpoint): IpamFinding[] => {
    const found = `${who}: ${why}`;
    const use = isStaticPodUid(allocation.podUid) ? 'its static pod may run' : 'the pod exists';
    if (!isProven) return [ipamFinding('endpoint-missing', { subject, found: `${found}, although ${use}` })];
    return [ipamFinding('leaked-address', { subject, found, repair: { kind: 'release', allocation, endpoint: of } })];
  };
  // The namespace of its pod lives: another check names it, and the address stays with it.
  const isUnconnected = here?.unconnected.some((each) => interfaceKey(each) === interfaceKey(allocation)) === true;
  if (isYoung || isUnconnected) return [];
  if (endpoint === undefined) {
    if (link !== undefined) {
      return [
        ipamFinding('endpoint-missing', {
          subject,
          found: `${who}: interface "${link}" uses it, but there is no endpoint`,
        }),
      ];
    }
    if (ownNetworks.has(networkOn(allocation))) return leak('there is no endpoint');
    const found = `${who}: there is no endpoint, as is usual under another main plugin than netplug`;
    return [
      ipamFinding('unconfirmed-address', {
        subject,
        found,
        repair: { kind: 'release', allocation, endpoint: undefined },
      }),
    ];
  }
  if (!endpoint.spec.ipNetworks.some((text) => text.split('/')[0] === subject)) {
    return leak(`its endpoint has ${endpoint.spec.ipNetworks.join(' and ')} instead`);
  }
  // Without an interface of netplug, the kernel cannot prove anything.
  if (here === undefined || link !== undefined || endpoint.spec.interfaceName === '') return [];
  return leak(`interface "${endpoint.spec.interfaceName}" does not exist on this node`, endpoint);
}

/** Whether netplug makes the links of the network on this machine, or of any network unless given, as the kernel shows it. */
export function isServedHere(here: LocalState | undefined, network?: string): boolean {
  return (
    here?.links.some(({ owner }) => owner !== undefined && (network === undefined || isLinkOf(owner, network))) === true
  );
}

/** Whether the holder's pod exists, or may, where endpoints alone prove nothing: the API need not know a static pod. */
export function isPodThere(
  { pods }: Pick<IpamState, 'pods'>,
  { namespace, pod, podUid }: Pick<Allocation, 'namespace' | 'pod' | 'podUid'>,
): boolean {
  const name = `${namespace ?? ''}/${pod ?? ''}`;
  const uid = pods?.get(name);
  if (pods?.has(name) !== true) return pods !== undefined && isStaticPodUid(podUid);
  return podUid === undefined || uid === undefined || podUid === uid;
}

/** The host side of the attachment, by its owner, or by its name when its alias was lost. */
function linkOf(
  { links }: LocalState,
  attachment: Allocation,
  endpoint: WorkloadEndpoint | undefined,
): string | undefined {
  const link = links.find(
    ({ name, owner }) =>
      (owner?.containerId === attachment.containerId && owner.ifName === attachment.ifName) ||
      (owner === undefined && name === endpoint?.spec.interfaceName),
  );
  return link?.name;
}

function endpointsWithoutAddress({ endpoints, local }: IpamState, held: readonly HeldAddress[]): IpamFinding[] {
  const holders = new Map<string, Set<string>>();
  for (const { address, allocation } of held) {
    const text = formatAddress(address);
    holders.set(text, (holders.get(text) ?? new Set()).add(holderKey(allocation)));
  }
  return endpoints.flatMap((before): IpamFinding[] => {
    const { metadata, spec } = before.value;
    const holder = holderKey(holderOfEndpoint(before.value));
    const lost = spec.ipNetworks.filter((text) => holders.get(text.split('/')[0] ?? '')?.has(holder) !== true);
    if (spec.ipam !== OWN_IPAM || lost.length === 0) return [];
    const subject = `${metadata.namespace ?? 'default'}/${metadata.name}`;
    const found = `endpoint ${subject} on node ${spec.node} has ${lost.join(' and ')}, which no block says it holds`;
    const isHere = local?.nodes.has(spec.node) === true;
    const isLinked = local?.links.some(
      ({ name, owner }) => name === spec.interfaceName || owner?.containerId === spec.containerID,
    );
    // Only the kernel of this node can prove that the endpoint is unused, and only when it holds no address.
    const isDead = isHere && isLinked === false && lost.length === spec.ipNetworks.length;
    const repair = isDead ? ({ kind: 'delete-endpoint', before } as const) : undefined;
    return [ipamFinding('endpoint-without-address', { subject, found, repair })];
  });
}

/** A link may be of a network whose records are in another datastore, or in a record that cannot be read. It is left alone then. */
function strayLinks({ local, endpoints, unreadable }: IpamState, held: readonly HeldAddress[]): IpamFinding[] {
  const holders = [
    ...held.map(({ allocation }) => allocation),
    ...endpoints.map(({ value: { spec } }) => ({ node: spec.node, network: spec.network ?? '' })),
  ].filter(({ node }) => local?.nodes.has(node) === true);
  const isRecordedHere = (owner: LinkOwner): boolean =>
    unreadable.length === 0 && holders.some(({ network }) => isLinkOf(owner, network));
  const attached = new Set([
    ...held.map(({ allocation }) => interfaceKey(allocation)),
    ...endpoints.map(({ value }) => interfaceKey(attachmentOf(value))),
    ...(local?.attached ?? []),
  ]);
  return (local?.links ?? []).flatMap((link): IpamFinding[] => {
    const { name, owner } = link;
    if (owner === undefined || attached.has(interfaceKey(owner))) return [];
    const found = `interface "${name}" belongs to container "${owner.containerId}", which holds no address and has no endpoint`;
    if (isRecordedHere(owner))
      return [ipamFinding('stray-link', { subject: name, found, repair: { kind: 'remove-link', link } })];
    const why = `this datastore may not be that of its network "${owner.network}"`;
    return [ipamFinding('stray-link', { subject: name, found: `${found}; it is not removed, because ${why}` })];
  });
}

function networkOn({ node, network }: { readonly node: string; readonly network: string }): string {
  return JSON.stringify([node, network]);
}
