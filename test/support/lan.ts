// A network segment that test nodes are plugged into: a bridge in a namespace of its own.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { newNetns, type TestNetns } from './netns.ts';

const ip = async (...args: string[]): Promise<unknown> => promisify(execFile)('ip', args);

export interface LanAddresses {
  readonly ipv4: string;
  readonly ipv6: string;
}

export interface Lan extends AsyncDisposable {
  /** With the bridge in it: from here, everything that is plugged in is a neighbour. */
  readonly netns: TestNetns;
  /** Gives the namespace a link `eth0` with the addresses for the number, and its way out. */
  plugIn(host: TestNetns, number: number, families?: Families): Promise<LanAddresses>;
}

/** Of addresses; both unless given. */
export type Families = 'both' | 'ipv6';

/** Makes a segment 172.31.0.0/24 with fd00:172:31::/64; number 1 is the bridge itself. */
export async function newLan(): Promise<Lan> {
  const netns = await newNetns();
  await netns.exec('ip', 'link', 'add', 'name', 'lan', 'type', 'bridge');
  await configure(netns, 'lan', addressesOf(1));
  // Who asks for what is not there hears so at once instead of waiting.
  const sysctls = ['net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1', 'net.ipv4.icmp_ratelimit=0'];
  await netns.exec('sysctl', '-q', '-w', ...sysctls, 'net.ipv6.icmp.ratelimit=0');
  for (const family of ['-4', '-6']) await netns.exec('ip', family, 'route', 'add', 'unreachable', 'default');
  const { ipv4, ipv6 } = addressesOf(1);
  return {
    netns,
    plugIn: async (host, number, families = 'both') => {
      const port = `port${String(number)}`;
      await ip('link', 'add', 'name', 'eth0', 'netns', host.name, 'type', 'veth', 'peer', port, 'netns', netns.name);
      await netns.exec('ip', 'link', 'set', 'dev', port, 'master', 'lan', 'up');
      await configure(host, 'eth0', addressesOf(number), families);
      if (families === 'both') await host.exec('ip', 'route', 'add', 'default', 'via', ipv4);
      await host.exec('ip', '-6', 'route', 'add', 'default', 'via', ipv6);
      return addressesOf(number);
    },
    [Symbol.asyncDispose]: async () => netns[Symbol.asyncDispose](),
  };
}

/** What the number stands for, plugged in or not. */
export function addressesOf(number: number): LanAddresses {
  return { ipv4: `172.31.0.${String(number)}`, ipv6: `fd00:172:31::${number.toString(16)}` };
}

async function configure(
  netns: TestNetns,
  link: string,
  { ipv4, ipv6 }: LanAddresses,
  families: Families = 'both',
): Promise<void> {
  if (families === 'both') await netns.addAddress(`${ipv4}/24`, link);
  await netns.addAddress(`${ipv6}/64`, link);
  await netns.exec('ip', 'link', 'set', 'dev', link, 'up');
}
