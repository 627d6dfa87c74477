import { type Sysctl, sysctlName } from '../link-sysctls.ts';
import { setLinkIpv4Conf } from './link-messages.ts';
import { setArpProxyDelay } from './neighbour-messages.ts';
import type { Request } from './route-socket.ts';

/** Numbers of settings in net.ipv4.conf (IPV4_DEVCONF_*), by name. */
const IPV4_CONF: ReadonlyMap<string, number> = new Map([
  ['forwarding', 1],
  ['proxy_arp', 3],
  ['rp_filter', 8],
]);

export interface LinkSettings {
  readonly requests: readonly Request[];
  /** The settings that must be written below /proc/sys. */
  readonly files: readonly Sysctl[];
}

/** Divides settings of one link into those that netlink can set, batched with other requests, and the rest. */
export function divideSettings(index: number, settings: readonly Sysctl[]): LinkSettings {
  const conf = new Map<number, number>();
  const requests: Request[] = [];
  const files: Sysctl[] = [];
  for (const setting of settings) {
    const [family, kind, , name = ''] = setting.path.split('/');
    const number = family === 'ipv4' && kind === 'conf' ? IPV4_CONF.get(name) : undefined;
    if (number !== undefined) conf.set(number, Number(setting.value));
    else if (family === 'ipv4' && kind === 'neigh' && name === 'proxy_delay') {
      const what = `set sysctl ${sysctlName(setting.path)} to ${setting.value} on the host`;
      requests.push({ what, message: setArpProxyDelay(index, Number(setting.value)) });
    } else files.push(setting);
  }
  if (conf.size > 0) {
    const written = settings.filter((setting) => !files.includes(setting)).map(({ path }) => sysctlName(path));
    requests.push({ what: `set ${written.join(', ')} on the host`, message: setLinkIpv4Conf(index, conf) });
  }
  return { requests, files };
}
