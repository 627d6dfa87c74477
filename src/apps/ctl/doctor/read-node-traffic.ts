import { untilAborted } from '../../../base/until-aborted.ts';
import { timeLimit } from '../../../base/clock.ts';
import { bgpSettingsOf, DEFAULT_PORT } from '../../../bgp/bgp-settings.ts';
import type { NodeTraffic } from '../../../install/host/firewall/traffic.ts';
import type { BgpConfiguration } from '../../../model/bgp-configuration.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import type { Node } from '../../../model/node.ts';
import { type Family, tryParseAddress } from '../../../net/address.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { isHostAddress } from '../../../routing/detect-address.ts';
import { endsOf } from '../../../routing/node-ends.ts';
import { isDirect, modeOf } from '../../../routing/pool-modes.ts';
import { tunnelKind } from '../../../routing/tunnels.ts';
import type { Sources } from './sources.ts';

/** Timeout for records; what they say is not known then. */
const RECORDS_MS = 4000;

/** Returns what passes between this node, its pods and the other nodes, as far as agent and datastore say. */
export async function readNodeTraffic(
  sources: Sources,
  { pools, families }: { readonly pools: readonly IpPool[]; readonly families: ReadonlySet<Family> },
): Promise<NodeTraffic> {
  const { network, registeredName } = await sources.agent();
  const name = network?.node ?? registeredName;
  const nodes = await within(async () => (await sources.records()).nodes);
  const routed = pools.map((pool) => ({ cidr: parseCidr(pool.spec.cidr), mode: modeOf(pool) }));
  return {
    families,
    pools: routed.map(({ cidr }) => cidr),
    own: new Map(
      (network?.addresses ?? []).flatMap(({ address: text, device }) => {
        const [address, prefixBits] = [tryParseAddress(text.split('/')[0] ?? ''), Number(text.split('/')[1])];
        if (address === undefined) return [];
        // Packets for an address without a network arrive by any link.
        const uplink = isHostAddress({ address, prefixBits }) ? undefined : device;
        return [[address.family, { address, device: uplink }] as const];
      }),
    ),
    peers: nodes === undefined || name === undefined ? undefined : addressesOf(nodes, name),
    tunnels: routed.flatMap(({ cidr, mode }) => (mode.kind === 'bgp' ? [] : [tunnelKind(mode.kind, cidr.base.family)])),
    direct: new Set(routed.filter(({ mode }) => isDirect(mode)).map(({ cidr }) => cidr.base.family)),
    bgpPort: routed.some(({ mode }) => mode.kind === 'bgp') ? await readBgpPort(sources, name ?? '') : undefined,
  };
}

function addressesOf(nodes: readonly Node[], self: string): NodeTraffic['peers'] {
  return nodes.filter(({ metadata }) => metadata.name !== self).flatMap((node) => [...endsOf(node).addresses.values()]);
}

/** Returns undefined where the nodes have no sessions with one another. */
async function readBgpPort({ store, context }: Sources, name: string): Promise<number | undefined> {
  const configurations = await within(async (): Promise<readonly BgpConfiguration[]> => {
    return (await (await store()).listResources('BGPConfiguration', context.signal)).resources;
  });
  if (configurations === undefined) return DEFAULT_PORT;
  const { isMeshEnabled, listenPort } = bgpSettingsOf(name, configurations);
  return isMeshEnabled ? listenPort : undefined;
}

async function within<T>(read: () => Promise<T>): Promise<T | undefined> {
  using limit = timeLimit(RECORDS_MS);
  try {
    return await untilAborted(read(), limit.signal);
  } catch {
    return undefined;
  }
}
