import { describe, expect, it } from 'vitest';
import { MemoryHostNetwork } from '../../test/support/memory/memory-host-network.ts';
import type { HostRoute } from '../dataplane/host-network.ts';
import { type Overruling, REVERSE_PATH, type WantedPath } from '../dataplane/overruled-paths.ts';
import { formatAddress, parseAddress } from '../net/address.ts';
import { formatCidr, parseCidr } from '../net/cidr.ts';
import { explainPaths, listWantedPaths, overruledProblems } from './overruled-routes.ts';

const TO_BLOCK: WantedPath = {
  address: parseAddress('10.65.1.0'),
  destination: parseCidr('10.65.1.0/26'),
  device: 'vxlan.netplug',
  gateway: parseAddress('10.65.1.1'),
};
const FOREIGN: Overruling = {
  rule: undefined,
  table: 254,
  type: 'unicast',
  destination: parseCidr('10.65.1.0/26'),
  device: 'eth0',
  gateway: parseAddress('192.0.2.9'),
  metric: 77,
};

function route(destination: string, gateway: string, device = 'eth0'): HostRoute {
  return {
    destination: parseCidr(destination),
    hop: { kind: 'gateway', gateway: parseAddress(gateway), device, isOnLink: true },
  };
}

async function hostWith(...routes: readonly HostRoute[]): Promise<MemoryHostNetwork> {
  const host = new MemoryHostNetwork();
  host.disturb(routes.map((each) => ({ kind: 'put-route', route: each })));
  return Promise.resolve(host);
}

describe('the paths that netplug wants', () => {
  it('are one for each pod of the node and for each route, and none for an address with a route of its own', async () => {
    const host = await hostWith(
      route('10.65.1.0/26', '192.0.2.2'),
      // Borrowed by another node.
      route('10.65.1.0/32', '192.0.2.3'),
      route('10.65.2.0/26', '192.0.2.2'),
      // Borrowed by a pod of this node.
      route('10.65.3.0/26', '192.0.2.2'),
      { destination: parseCidr('10.65.0.0/26'), hop: { kind: 'blackhole' } },
    );
    host.putPodLink('npl1', [parseAddress('10.65.0.5'), parseAddress('fd00::5')]);
    host.putPodLink('npl2', [parseAddress('10.65.3.0')]);
    const paths = await listWantedPaths(host);
    expect(paths.map(({ destination, device }) => `${formatCidr(destination)} ${device}`)).toEqual([
      '10.65.0.5/32 npl1',
      'fd00::5/128 npl1',
      '10.65.3.0/32 npl2',
      '10.65.1.0/32 eth0',
      '10.65.2.0/26 eth0',
    ]);
    expect(paths.map(({ address }) => formatAddress(address))).toContain('10.65.2.0');
  });

  it('are explained for an address that a route leads to, and for no other', async () => {
    const host = await hostWith(route('10.65.1.0/26', '10.65.1.1', 'vxlan.netplug'));
    host.overrule(parseCidr('10.0.0.0/8'), FOREIGN);
    const explained = await explainPaths(host, [parseAddress('10.65.1.7')]);
    expect(explained).toEqual([expect.objectContaining({ text: expect.stringContaining('packets to 10.65.1.7 ') })]);
    expect(await explainPaths(host, [parseAddress('10.65.9.7')])).toEqual([]);
  });
});

describe('a route that another one goes before', () => {
  const problemsOf = (...pairs: [WantedPath, Overruling][]) =>
    overruledProblems(pairs.map(([path, by]) => ({ path, by })));

  it('is named with both routes and the command that removes that of the other program', () => {
    expect(problemsOf([TO_BLOCK, FOREIGN])).toEqual([
      {
        severity: 'error',
        text: 'packets to 10.65.1.0 (of another node) leave by "eth0" via 192.0.2.9 in place of "vxlan.netplug" via 10.65.1.1: route 10.65.1.0/26 with metric 77 of another program goes before that of netplug',
        remedy: expect.stringMatching(/ip route delete 10\.65\.1\.0\/26 via 192\.0\.2\.9 dev eth0 metric 77$/),
      },
    ]);
  });

  it('is a warning when the other one leads to another gateway by the same device', () => {
    const direct = { ...TO_BLOCK, device: 'eth0', gateway: parseAddress('192.0.2.2') };
    expect(problemsOf([direct, FOREIGN])).toMatchObject([{ severity: 'warning' }]);
  });

  it('is one problem for all that one rule or one device takes, and another one for each family', () => {
    const v6 = { ...TO_BLOCK, address: parseAddress('fd00::1'), destination: parseCidr('fd00::/64') };
    const other = { ...TO_BLOCK, address: parseAddress('10.65.2.0'), destination: parseCidr('10.65.2.0/26') };
    const texts = problemsOf([TO_BLOCK, FOREIGN], [other, FOREIGN], [v6, FOREIGN]).map(({ text }) => text);
    expect(texts).toEqual([expect.stringContaining('and 1 more address leave'), expect.stringContaining('fd00::1')]);
  });

  it('is named when a rule, or a route, refuses the packets', () => {
    const nothing = { destination: undefined, device: undefined, gateway: undefined, metric: undefined };
    const refusing = { ...nothing, rule: 100, table: undefined, type: 'prohibit' };
    const byRoute = { ...FOREIGN, type: 'blackhole', device: undefined, gateway: undefined };
    const back = { ...nothing, rule: 100, table: 52, type: REVERSE_PATH };
    const [first, second, third] = problemsOf([TO_BLOCK, refusing], [TO_BLOCK, byRoute], [TO_BLOCK, back]);
    expect(third?.text).toMatch(
      /\(reverse path\) .*: routing rule 100 leads packets of the other direction by table 52$/,
    );
    expect(first?.text).toMatch(/are refused \(prohibit\) .*: routing rule 100 refuses them$/);
    expect(second?.text).toMatch(/: blackhole route 10\.65\.1\.0\/26 with metric 77 of another program goes before/);
    expect(second?.remedy).toMatch(/ip route delete blackhole 10\.65\.1\.0\/26 metric 77$/);
  });

  it('leaves a name out of the command that cannot stand there', () => {
    const [problem] = problemsOf([TO_BLOCK, { ...FOREIGN, device: 'a;reboot' }]);
    expect(problem?.remedy).not.toContain('reboot');
  });
});
