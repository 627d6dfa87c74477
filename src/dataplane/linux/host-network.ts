import { release } from 'node:os';
import type { Family } from '../../net/address.ts';
import type { HostNetwork } from '../host-network.ts';
import { type Addon, loadAddon } from './addon.ts';
import { applyHostChanges } from './host-changes.ts';
import { watchHost } from './host-events.ts';
import { changedSettings, forwardingRecorder, restoreSettings } from './forwarding-record.ts';
import { type ForwardingOptions, switchOnIpv6Forwarding } from './host-forwarding.ts';
import {
  listInterfaces,
  listLinkAddresses,
  listPaths,
  listLearnedDestinations,
  listLearnedDevices,
  listPeers,
  listRoutes,
  lookUp,
  newestPodLink,
} from './host-tables.ts';
import { withOwnAddresses } from './host-sides.ts';
import { listHostLinks } from './links.ts';
import { findOverruled } from './overruled-paths.ts';
import { RouteSocket } from './route-socket.ts';
import { forwardingSysctls, IPV6_SWITCH, sysctlName } from '../link-sysctls.ts';
import { isDifferent, readSysctl, writeSysctl } from './sysctl.ts';
import { findRivals, findTunnels, putTunnel, removeTunnel } from './tunnels.ts';
import { type VxlanChecksums, wantedChecksums } from './vxlan-checksums.ts';

export interface LinuxHostNetworkOptions {
  /** `auto` unless given. */
  readonly vxlanChecksums?: () => VxlanChecksums;
  /** Folder in which settings of the host are recorded before they are changed; not recorded unless given. */
  readonly recordFolder?: string;
  /** Path of netns.node, for a bundle that does not contain it. */
  readonly addonPath?: string;
}

/**
 * Returns the port to the host: the network namespace of the main thread at the time of each call. Nothing is opened
 * before the first call, and between calls only watches hold sockets.
 */
export function linuxHostNetwork(options: LinuxHostNetworkOptions = {}): HostNetwork {
  const { recordFolder } = options;
  const addon = (): Addon => loadAddon(options.addonPath);
  const checksums = (): ReturnType<typeof wantedChecksums> =>
    wantedChecksums(options.vxlanChecksums?.() ?? 'auto', release());
  return {
    listInterfaces: async () => withSocket(addon(), listInterfaces),
    listAddresses: async () => withSocket(addon(), listLinkAddresses),
    newestPodLink: async () => withSocket(addon(), newestPodLink),
    lookUp: async (address) => withSocket(addon(), async (socket) => lookUp(socket, address)),
    listPodLinks: async () => withSocket(addon(), async (socket) => withOwnAddresses(listHostLinks(socket))),
    findOverruled: async (paths) => withSocket(addon(), async (socket) => findOverruled(socket, paths)),
    listPaths: async () => withSocket(addon(), listPaths),
    findSourceChecks,
    listRoutes: async () => withSocket(addon(), listRoutes),
    listLearnedDestinations: async (metric) =>
      withSocket(addon(), async (socket) => listLearnedDestinations(socket, metric)),
    listLearnedDevices: async (metric) => withSocket(addon(), async (socket) => listLearnedDevices(socket, metric)),
    listPeers: async (device) => withSocket(addon(), async (socket) => listPeers(socket, device)),
    putTunnel: async (tunnel) => putTunnel({ addon: addon(), checksums: checksums() }, tunnel),
    findTunnels: async (names) => findTunnels(addon(), names),
    findRivals: async (vxlan) => findRivals(addon(), vxlan),
    removeTunnel: async (name) => removeTunnel(addon(), name),
    change: async (changes, signal) => withSocket(addon(), async (socket) => applyHostChanges(socket, changes, signal)),
    ensureForwarding: (families, ipv4Links) =>
      ensureForwarding(
        { families, ipv4Links },
        recordFolder === undefined ? {} : { record: forwardingRecorder(recordFolder) },
      ),
    findChangedSettings: () =>
      (recordFolder === undefined ? [] : changedSettings(recordFolder)).map(
        ({ path, value }) => `${sysctlName(path)}=${value}`,
      ),
    restoreSettings: () => {
      if (recordFolder !== undefined) restoreSettings(recordFolder);
    },
    watch: (onEvent) => watchHost(addon(), onEvent),
  };
}

/** See HostNetwork.findSourceChecks. The kernel takes the greater of the two values; 1 is strict, 2 is loose. */
function findSourceChecks(links: readonly string[]): ReadonlySet<string> {
  const valueOf = (link: string): number => Number(readSysctl(`ipv4/conf/${link}/rp_filter`) ?? 0);
  const all = valueOf('all');
  return new Set(links.filter((link) => Math.max(all, valueOf(link)) === 1));
}

async function withSocket<T>(addon: Addon, use: (socket: RouteSocket) => Promise<T>): Promise<T> {
  using socket = RouteSocket.open(addon);
  return await use(socket);
}

/** See HostNetwork.ensureForwarding. Each setting is compared after those before it were written, which change others. */
function ensureForwarding(
  wanted: { readonly families: ReadonlySet<Family>; readonly ipv4Links: readonly string[] },
  options: ForwardingOptions,
): readonly string[] {
  return forwardingSysctls(wanted.families, wanted.ipv4Links).flatMap((setting) => {
    if (setting.path === IPV6_SWITCH) return switchOnIpv6Forwarding(options) ? [`${sysctlName(setting.path)}=0`] : [];
    if (!isDifferent(setting)) return [];
    options.record?.(4, setting.path);
    writeSysctl(setting, 'on the host');
    return [`${sysctlName(setting.path)}=0`];
  });
}
