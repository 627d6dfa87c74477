// The network below a fabric: three segments with a bridge each, and the router that joins them.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { LanAddresses } from './lan.ts';
import { newNetns, type TestNetns } from './netns.ts';

const run = promisify(execFile);

/** `a` and `b` are for nodes; pods' addresses mean nothing to `world`. */
export type Segment = 'a' | 'b' | 'world';

/** What stands before the number of a host. */
const PREFIXES: Readonly<Record<Segment, LanAddresses>> = {
  a: { ipv4: '192.0.2.', ipv6: 'fd00:a::' },
  b: { ipv4: '198.51.100.', ipv6: 'fd00:b::' },
  world: { ipv4: '203.0.113.', ipv6: 'fd00:c::' },
};
const MACS: Readonly<Record<Segment, string>> = {
  a: '02:00:00:00:0a:01',
  b: '02:00:00:00:0b:01',
  world: '02:00:00:00:0c:01',
};
const ROUTER = 1;

export interface Segments extends AsyncDisposable {
  /** Knows the segments and nothing else: whatever is for elsewhere it calls unreachable, at once. */
  readonly router: TestNetns;
  /** Gives the namespace a link `eth0` and the router as its way out; disposing pulls the plug. */
  plugIn(host: TestNetns, segment: Segment, number: number): Promise<Plug>;
}

export interface Plug extends AsyncDisposable {
  readonly addresses: LanAddresses;
}

/** Every link gets the MTU, in bytes. */
export async function newSegments(mtu: number): Promise<Segments> {
  const router = await newNetns();
  const sysctls = ['net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1', 'net.ipv4.icmp_ratelimit=0'];
  await router.exec('sysctl', '-q', '-w', ...sysctls, 'net.ipv6.icmp.ratelimit=0');
  for (const segment of Object.keys(PREFIXES) as Segment[]) {
    // With a MAC address of its own: otherwise it is one of its ports', another one whenever they come and go.
    const own = ['address', MACS[segment], 'mtu', String(mtu)];
    await router.exec('ip', 'link', 'add', 'name', segment, ...own, 'type', 'bridge');
    await configure(router, segment, addressesOn(segment, ROUTER));
  }
  for (const family of ['-4', '-6']) await router.exec('ip', family, 'route', 'add', 'unreachable', 'default');
  return {
    router,
    plugIn: async (host, segment, number) => {
      const port = `${segment}${String(number)}`;
      const size = ['mtu', String(mtu)];
      const peer = ['peer', 'name', port, 'netns', router.name, ...size];
      await run('ip', ['link', 'add', 'name', 'eth0', 'netns', host.name, ...size, 'type', 'veth', ...peer]);
      await router.exec('ip', 'link', 'set', 'dev', port, 'master', segment, 'up');
      await configure(host, 'eth0', addressesOn(segment, number));
      const gateway = addressesOn(segment, ROUTER);
      await host.exec('ip', 'route', 'add', 'default', 'via', gateway.ipv4);
      await host.exec('ip', '-6', 'route', 'add', 'default', 'via', gateway.ipv6);
      const pull = async (): Promise<void> => void (await router.exec('ip', 'link', 'delete', 'dev', port));
      return { addresses: addressesOn(segment, number), [Symbol.asyncDispose]: pull };
    },
    [Symbol.asyncDispose]: async () => router[Symbol.asyncDispose](),
  };
}

function addressesOn(segment: Segment, number: number): LanAddresses {
  const { ipv4, ipv6 } = PREFIXES[segment];
  return { ipv4: `${ipv4}${String(number)}`, ipv6: `${ipv6}${number.toString(16)}` };
}

async function configure(netns: TestNetns, link: string, { ipv4, ipv6 }: LanAddresses): Promise<void> {
  await netns.addAddress(`${ipv4}/24`, link);
  await netns.addAddress(`${ipv6}/64`, link);
  await netns.exec('ip', 'link', 'set', 'dev', link, 'up');
}
