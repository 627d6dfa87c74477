import { NetplugError } from '../base/errors.ts';
import { type Address, tryParseAddress } from '../net/address.ts';
import { tryParseMac } from '../net/mac.ts';
import { tryReadCidr } from '../net/cidr.ts';

/** The decoded CNI_ARGS. */
export interface CniArgs {
  /** At most one of each family. */
  readonly ips: readonly Address[];
  readonly mac: string | undefined;
  readonly podName: string | undefined;
  readonly podNamespace: string | undefined;
  readonly podUid: string | undefined;
}

/**
 * Decodes `KEY=value;KEY=value`. Unknown arguments are ignored, regardless of IgnoreUnknown.
 * @throws cni/env-invalid, ipam/request-invalid
 */
export function decodeCniArgs(text: string | undefined): CniArgs {
  const pairs = new Map<string, string>();
  for (const pair of (text ?? '').split(';')) {
    if (pair.trim() === '') continue;
    const [key, value, more] = pair.split('=');
    if (key === undefined || key.trim() === '' || value === undefined || more !== undefined) {
      throw new NetplugError('cni/env-invalid', `Cannot read CNI_ARGS: "${pair}" is not a pair of key and value`, {
        hint: 'Write CNI_ARGS as KEY=value;KEY=value',
      });
    }
    // An empty value is the same as an absent key.
    if (value.trim() !== '') pairs.set(key.trim(), value.trim());
  }
  return {
    ips: readIps(pairs.get('IP') ?? ''),
    mac: readMac(pairs.get('MAC')),
    podName: pairs.get('K8S_POD_NAME'),
    podNamespace: pairs.get('K8S_POD_NAMESPACE'),
    podUid: pairs.get('K8S_POD_UID'),
  };
}

function readIps(list: string): Address[] {
  const addresses: Address[] = [];
  for (const word of list.split(',').map((part) => part.trim())) {
    if (word === '') continue;
    const address = tryParseAddress(word) ?? tryReadCidr(word)?.address;
    if (address === undefined) {
      throw new NetplugError('ipam/request-invalid', `Cannot read IP of CNI_ARGS: "${word}" is not an IP address`, {
        hint: 'Pass IP as one IPv4 address, one IPv6 address, or one of each with a comma between',
      });
    }
    if (addresses.some(({ family }) => family === address.family)) {
      const which = `"${word}" is a second IPv${String(address.family)} address`;
      throw new NetplugError('ipam/request-invalid', `Cannot read IP of CNI_ARGS: ${which}`, {
        hint: 'Ask for at most one address of each family',
      });
    }
    addresses.push(address);
  }
  return addresses;
}

function readMac(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const mac = tryParseMac(text);
  if (mac !== undefined) return mac;
  throw new NetplugError(
    'cni/env-invalid',
    `Cannot read MAC of CNI_ARGS: "${text}" is not a unicast hardware address`,
    {
      hint: 'Write MAC as aa:bb:cc:dd:ee:ff',
    },
  );
}
