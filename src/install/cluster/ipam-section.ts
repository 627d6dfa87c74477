import { type Family, FAMILIES } from '../../net/address.ts';
import { type CompleteSpec, valueAt } from './spec-path.ts';

const POD_CIDR: Readonly<Record<Family, string>> = { 4: 'usePodCidr', 6: 'usePodCidrIPv6' };

export interface IpamSection {
  readonly type: CompleteSpec['cni']['ipam']['type'];
  readonly families: readonly Family[];
}

/** Returns the section `ipam` of the plugin's configuration. */
export function renderIpam({ type, families }: IpamSection): object {
  if (type === 'HostLocal') {
    return { type: 'host-local', ranges: families.map((family) => [{ subnet: POD_CIDR[family] }]) };
  }
  const isOn = (family: Family): string => String(families.includes(family));
  return { type: 'netplug-ipam', assign_ipv4: isOn(4), assign_ipv6: isOn(6) };
}

/** Returns what a section `ipam` says. */
export function readIpam(section: unknown): IpamSection {
  if (valueAt(section, 'type') === 'host-local') {
    const text = JSON.stringify(section);
    return { type: 'HostLocal', families: FAMILIES.filter((family) => text.includes(`"${POD_CIDR[family]}"`)) };
  }
  const isOn = { 4: valueAt(section, 'assign_ipv4') !== 'false', 6: valueAt(section, 'assign_ipv6') === 'true' };
  return { type: 'netplug-ipam', families: FAMILIES.filter((family) => isOn[family]) };
}
