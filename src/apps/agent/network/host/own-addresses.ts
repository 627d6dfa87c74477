import { NetplugError } from '../../../../base/errors.ts';
import type { HostInterface, HostNetwork } from '../../../../dataplane/host-network.ts';
import type { NodeName } from '../../../../model/names.ts';
import { FAMILIES, type Family, formatAddress, parseAddress, sameAddress } from '../../../../net/address.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import { detectAddress } from '../../../../routing/detect-address.ts';
import type { Detection } from '../../../../routing/detect-address-method.ts';
import { endsOf, NO_ENDS } from '../../../../routing/node-ends.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import { isTunnelDevice } from '../../../../routing/tunnels.ts';

/**
 * The pause between two searches for the node's own addresses: links of other plugins may come and go all the time, and
 * each could have such an address.
 */
export const ADDRESSES_PAUSE_MS = 500;

export interface AddressQuestion {
  readonly node: NodeName;
  /** The addresses detected last. One that is still on its link is kept when detection fails. */
  readonly known: ReadonlyMap<Family, OwnAddress>;
  readonly detection: Readonly<Record<Family, Detection>>;
}

export interface OwnAddresses {
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  /** Reasons why a family has none, a sentence each. */
  readonly problems: readonly string[];
  /** The interfaces of the host, without tunnels of the agent. */
  readonly interfaces: readonly HostInterface[];
}

/** Finds the node's own addresses, one per family at most. */
export async function findOwnAddresses(
  host: Pick<HostNetwork, 'listInterfaces' | 'lookUp'>,
  state: Pick<ClusterState, 'findNode' | 'pools'>,
  { node, known, detection }: AddressQuestion,
): Promise<OwnAddresses> {
  const interfaces = (await host.listInterfaces()).filter(({ name }) => !isTunnelDevice(name));
  const record = state.findNode(node);
  const { addresses: published } = record === undefined ? NO_ENDS : endsOf(record);
  const internalIps = (record?.spec.addresses ?? [])
    .filter(({ type }) => type === 'InternalIP')
    .map(({ address }) => parseAddress(address));
  const pools = state.pools.map(({ cidr }) => cidr);
  const addresses = new Map<Family, OwnAddress>();
  const problems: string[] = [];
  for (const family of FAMILIES) {
    const wanted = detection[family];
    const reach = wanted.kind === 'can-reach' ? await host.lookUp(wanted.target) : undefined;
    const before = known.get(family);
    const had = before?.address ?? published.get(family);
    const found = detectAddress(family, wanted, { interfaces, internalIps, pools, reach, known: had });
    if (found.kind === 'found') {
      const { address, prefixBits, interfaceName: device, mtu } = found;
      addresses.set(family, { address, prefixBits, device, mtu });
    }
    if (found.kind === 'problem' && before !== undefined && isOnLink(before, interfaces)) addresses.set(family, before);
    // Only families of pools need an address.
    if (found.kind === 'problem' && pools.some(({ base }) => base.family === family)) problems.push(found.problem);
  }
  return { addresses, problems, interfaces };
}

function isOnLink({ address, device }: OwnAddress, interfaces: readonly HostInterface[]): boolean {
  const link = interfaces.find(({ name }) => name === device);
  return link?.addresses.some((each) => sameAddress(each.address, address)) ?? false;
}

/** @throws agent/address-conflict when another node has one of the addresses */
export function assertNoConflict(node: NodeName, addresses: OwnAddresses['addresses'], state: ClusterState): void {
  for (const [family, { address }] of addresses) {
    const other = state.nodeNames.find((name) => {
      const theirs = state.endsOf(name).addresses.get(family);
      return name !== node && theirs !== undefined && sameAddress(theirs, address);
    });
    if (other === undefined) continue;
    const text = formatAddress(address);
    throw new NetplugError(
      'agent/address-conflict',
      `Cannot register node "${node}" with address ${text}: node "${other}" has it already`,
      {
        hint: `Give the nodes different addresses, choose another one with NETPLUG_IP${family === 6 ? '6' : ''}, or remove node "${other}" if it no longer exists`,
        facts: { node, address: text, other },
      },
    );
  }
}
