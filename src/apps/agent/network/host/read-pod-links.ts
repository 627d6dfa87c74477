import type { HostNetwork, HostPath } from '../../../../dataplane/host-network.ts';
import { HOST_LINK_PREFIX } from '../../../../dataplane/kernel.ts';
import { type Address, bitsOf, formatAddress } from '../../../../net/address.ts';
import type { PodLinkNames } from '../../../../policy/pod-link-names.ts';

/** The interfaces of pods that another plugin has connected. */
export interface PodLinks {
  /** By the canonical text of the address to which a route of the host leads through the interface. */
  readonly byAddress: ReadonlyMap<string, string>;
  /** Interfaces with a prefix that are not of pods. */
  readonly others: readonly string[];
}

type Readable = Pick<HostNetwork, 'listInterfaces' | 'listPaths' | 'lookUp'>;

/** Returns the interfaces whose names begin with one of the prefixes, as the host is now. @throws kernel/failed */
export async function readPodLinks(host: Readable, prefixes: readonly string[]): Promise<PodLinks> {
  const others = new Set(await findOthers(host, prefixes));
  const isOfPod = (name: string): boolean => prefixes.some((prefix) => name.startsWith(prefix)) && !others.has(name);
  const paths = (await host.listPaths()).filter(
    ({ destination: { base, prefixBits } }) => prefixBits === bitsOf(base.family),
  );
  const byAddress = new Map<string, string>();
  for (const [text, found] of Map.groupBy(paths, ({ destination }) => formatAddress(destination.base))) {
    if (!found.some(({ devices }) => devices.some(isOfPod))) continue;
    const device = await deviceOf(host, found);
    if (device !== undefined && isOfPod(device)) byAddress.set(text, device);
  }
  return { byAddress, others: [...others] };
}

/** Returns which interfaces are of pods, for a node without further knowledge. @throws kernel/failed */
export async function readPodLinkNames(
  host: Pick<HostNetwork, 'listInterfaces'>,
  prefixes: readonly string[],
): Promise<PodLinkNames> {
  return podLinkNames(prefixes, prefixes.length === 0 ? [] : await findOthers(host, prefixes));
}

export function podLinkNames(prefixes: readonly string[], others: readonly string[]): PodLinkNames {
  return { prefixes: [...new Set([HOST_LINK_PREFIX, ...prefixes])], others };
}

/**
 * An interface with an address of a subnet leads to more than one pod: to other machines, or to all pods as a bridge does. IPv6
 * addresses do not count: a pod could send a router advertisement, from which the host gives its own end of the link one.
 */
async function findOthers(
  host: Pick<HostNetwork, 'listInterfaces'>,
  prefixes: readonly string[],
): Promise<readonly string[]> {
  return (await host.listInterfaces())
    .filter(({ name }) => prefixes.some((prefix) => name.startsWith(prefix)))
    .filter(({ addresses }) =>
      addresses.some(({ address, prefixBits }) => address.family === 4 && prefixBits < bitsOf(4)),
    )
    .map(({ name }) => name)
    .toSorted();
}

/** Returns the device that the kernel uses for an address to which several routes lead. */
async function deviceOf(host: Readable, paths: readonly HostPath[]): Promise<string | undefined> {
  const [first] = paths;
  const devices = new Set(paths.flatMap((path) => path.devices));
  if (first === undefined || devices.size === 1) return first?.devices[0];
  const address: Address = first.destination.base;
  return (await host.lookUp(address))?.device;
}
