import type { HostInterface, HostNetwork } from '../../../../dataplane/host-network.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { Sentence } from '../../../../model/node-report.ts';
import { type Address, FAMILIES, type Family, sameAddress } from '../../../../net/address.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import { detectAddress, type DetectionOutcome } from '../../../../routing/detect-address.ts';
import type { Detection } from '../../../../routing/detect-address-method.ts';
import { internalIpsOf } from '../../../../routing/judge-claim.ts';
import { endsOf, NO_ENDS } from '../../../../routing/node-ends.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import { isTunnelDevice } from '../../../../routing/tunnels.ts';
import type { RetainedAddresses } from './retained-addresses.ts';

/**
 * The pause between two searches for the node's own addresses: links of other plugins may come and go all the time, and
 * each could have such an address.
 */
export const ADDRESSES_PAUSE_MS = 500;

export interface AddressQuestion {
  readonly node: NodeName;
  /** What the node has had. An address that is still on its link is kept when detection fails. */
  readonly own: Pick<RetainedAddresses, 'addresses' | 'replaced'>;
  readonly detection: Readonly<Record<Family, Detection>>;
  /** Names the setting behind a variable of the agent, as the installation has it. */
  readonly settingName: (variable: string) => string;
}

export interface OwnAddresses {
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  /** What the record of the node has. */
  readonly published: ReadonlyMap<Family, Address>;
  /** Reasons why a family has none. */
  readonly problems: readonly Sentence[];
  /** The interfaces of the host, without tunnels of the agent. */
  readonly interfaces: readonly HostInterface[];
}

/** Finds the node's own addresses, one per family at most. */
export async function findOwnAddresses(
  host: Pick<HostNetwork, 'listInterfaces' | 'lookUp'>,
  state: Pick<ClusterState, 'findNode' | 'pools'>,
  { node, own, detection, settingName }: AddressQuestion,
): Promise<OwnAddresses> {
  const interfaces = (await host.listInterfaces()).filter(({ name }) => !isTunnelDevice(name));
  const record = state.findNode(node);
  const { addresses: published } = record === undefined ? NO_ENDS : endsOf(record);
  const internalIps = record === undefined ? [] : internalIpsOf(record);
  const pools = state.pools.map(({ cidr }) => cidr);
  const addresses = new Map<Family, OwnAddress>();
  const problems: Sentence[] = [];
  for (const family of FAMILIES) {
    const wanted = detection[family];
    const reach = wanted.kind === 'can-reach' ? await host.lookUp(wanted.target) : undefined;
    const before = own.addresses.get(family);
    const known = [own.replaced.get(family), before?.address ?? published.get(family)].filter(
      (each) => each !== undefined,
    );
    const found = detectAddress(family, wanted, { interfaces, internalIps, pools, reach, known });
    if (found.kind === 'found') {
      const { address, prefixBits, interfaceName: device, mtu } = found;
      addresses.set(family, { address, prefixBits, device, mtu });
    }
    if (found.kind === 'problem' && before !== undefined && isOnLink(before, interfaces)) addresses.set(family, before);
    // Only families of pools need an address.
    if (found.kind === 'problem' && pools.some(({ base }) => base.family === family)) {
      const setting = settingName(family === 4 ? 'NETPLUG_IP' : 'NETPLUG_IP6');
      problems.push(withRemedy(found, setting));
    }
  }
  return { addresses, published, problems, interfaces };
}

function withRemedy(
  { problem, method }: Extract<DetectionOutcome, { readonly kind: 'problem' }>,
  setting: string,
): Sentence {
  if (method === undefined) return problem;
  return { text: problem, remedy: `If that is the address of the node, choose it with ${setting}: "${method}"` };
}

function isOnLink({ address, device }: OwnAddress, interfaces: readonly HostInterface[]): boolean {
  const link = interfaces.find(({ name }) => name === device);
  return link?.addresses.some((each) => sameAddress(each.address, address)) ?? false;
}
