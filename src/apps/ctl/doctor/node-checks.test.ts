import { describe, expect, it } from 'vitest';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { poolOf } from '../../../../test/support/fixtures.ts';
import { VERSION } from '../../../base/version.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import { parseAddress } from '../../../net/address.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { AGENT_CHECKS } from './agent-checks.ts';
import type { AgentFacts } from './agent-facts.ts';
import { BGP_CHECKS, type BgpFacts } from './bgp-checks.ts';
import type { FirewallFault } from '../../../install/host/firewall/judge-firewall.ts';
import type { FullTable } from '../../../install/host/kernel-tables.ts';
import type { HostLink } from '../../../dataplane/kernel.ts';
import { KERNEL_CHECKS } from './kernel-checks.ts';
import { type Ability, type KernelFacts, neededFor } from './kernel-facts.ts';

const NETWORK: ShownNetwork = {
  node: 'node-a',
  addresses: [],
  tunnels: [],
  routes: { blackhole: 0, direct: 0, tunnelled: 0 },
  peers: 0,
  nodes: 1,
  pools: [],
  problems: [],
};
const AGENT: AgentFacts = {
  socket: '/run/netplug/cni.sock',
  hasSocket: true,
  registeredName: 'node-a',
  unreachable: undefined,
  version: VERSION,
  network: NETWORK,
  health: '127.0.0.1:9098',
  readiness: { isReady: true, reasons: [] },
  damagedJournals: [],
  journals: ['one.jsonl'],
};

describe('doctor checks of the agent', () => {
  expectEachCheck(AGENT_CHECKS, AGENT, {
    silent: { unreachable: 'it does not run', journals: [] },
    absent: { unreachable: 'ENOENT', hasSocket: false, registeredName: undefined, journals: [] },
    'stale-socket': {
      facts: { unreachable: 'connect ECONNREFUSED', journals: [] },
      ids: ['agent/silent', 'agent/stale-socket'],
    },
    'damaged-journal': { damagedJournals: ['/var/lib/netplug/journal/a.b.000000.jsonl.damaged'] },
    'left-journal': { facts: { unreachable: 'no answer' }, ids: ['agent/silent', 'agent/left-journal'] },
    'not-ready': { readiness: { isReady: false, reasons: ['the datastore does not answer'] } },
    network: { network: { ...NETWORK, problems: [problem('error')] } },
    warnings: { network: { ...NETWORK, problems: [problem('warning')] } },
    version: { version: 'v3.26.0' },
    'health-unseen': { readiness: undefined },
  });
});

it('leave what the agent says of the firewall to the check that judges it now', () => {
  const said = { ...problem('error'), code: 'kernel/tunnel-dropped' };
  const facts = { ...AGENT, network: { ...NETWORK, problems: [said, problem('error')] } };
  expect(AGENT_CHECKS.flatMap(({ judge }) => judge(facts))).toEqual([{ found: 'routes: refused' }]);
});

function problem(severity: 'error' | 'warning'): ShownNetwork['problems'][number] {
  return { code: 'network/failing', severity, text: 'routes: refused', since: '2026-12-01T09:00:00Z' };
}

const ALL: Readonly<Record<Ability, boolean>> = { veth: true, vxlan: true, ipip: true, nf_tables: true };
const LINK: HostLink = {
  name: 'npl1',
  index: 7,
  mac: 'ee:ee:ee:ee:ee:ee',
  mtu: 1500,
  isUp: true,
  owner: undefined,
  addresses: [],
};
/** 10 Mbit/s with the burst that a runtime passes. */
const LIMIT = {
  device: 'npl1',
  deviceIndex: 7,
  owner: { containerId: 'c0ffee', ifName: 'eth0', network: 'net' },
  direction: 'ingress',
  bytesPerSecond: 1_250_000,
  burstBytes: 193_273_526,
  queueBytes: undefined,
  isBounded: false,
} as const;
const PATH = {
  address: parseAddress('10.65.1.0'),
  destination: parseCidr('10.65.1.0/26'),
  device: 'eth0',
  gateway: parseAddress('192.0.2.2'),
};
const BY = {
  rule: undefined,
  table: 254,
  type: 'unicast',
  destination: PATH.destination,
  device: 'eth1',
  gateway: parseAddress('192.0.3.9'),
  metric: 0,
};
const KERNEL: KernelFacts = {
  release: '6.1.0-13-amd64',
  families: new Set([4, 6]),
  needed: new Set(['veth', 'vxlan', 'nf_tables']),
  abilities: { ...ALL, ipip: false },
  sysctls: {
    'ipv4/ip_forward': '1',
    'ipv6/conf/all/forwarding': '1',
    'ipv6/conf/all/disable_ipv6': '0',
    'ipv4/conf/all/rp_filter': '1',
    'ipv4/conf/all/arp_ignore': '0',
    'ipv4/conf/vxlan.netplug/rp_filter': '2',
    'ipv4/conf/vxlan.netplug/forwarding': '1',
    'ipv4/conf/eth0/forwarding': '1',
  },
  firewall: { faults: [], unread: [] },
  fullTables: [],
  forwardingLinks: ['vxlan.netplug', 'eth0'],
  incompleteLinks: [],
  leftOvers: [],
  ipvsDevices: [],
  unconnected: [],
  rivals: [],
  overruled: [],
  rateLimits: [{ ...LIMIT, burstBytes: 125_000 }],
  tunnels: ['vxlan.netplug'],
};
const sysctl = (path: string, value: string): Pick<KernelFacts, 'sysctls'> => ({
  sysctls: { ...KERNEL.sysctls, [path]: value },
});

const dropped = (code: FirewallFault['code']): Pick<KernelFacts, 'firewall'> => ({
  firewall: { faults: [{ code, found: 'chain INPUT drops it', remedy: 'Accept it' }], unread: [] },
});
const full = (code: FullTable['code']): Pick<KernelFacts, 'fullTables'> => ({
  fullTables: [{ code, found: 'no room', remedy: 'Raise it', command: 'sysctl -w a/b=2' }],
});

describe('doctor checks of the kernel', () => {
  expectEachCheck(KERNEL_CHECKS, KERNEL, {
    forwarding: sysctl('ipv4/ip_forward', '0'),
    'forward-dropped': dropped('kernel/forward-dropped'),
    'outside-dropped': dropped('kernel/outside-dropped'),
    'tunnel-dropped': dropped('kernel/tunnel-dropped'),
    'bgp-dropped': dropped('kernel/bgp-dropped'),
    'flows-full': full('kernel/flows-full'),
    'flows-nearly-full': full('kernel/flows-nearly-full'),
    'neighbours-full': full('kernel/neighbours-full'),
    'neighbours-nearly-full': full('kernel/neighbours-nearly-full'),
    'ipv6-off': sysctl('ipv6/conf/all/disable_ipv6', '1'),
    missing: { abilities: { ...ALL, vxlan: false } },
    untried: { abilities: { ...ALL, veth: undefined } },
    'filter-unread': { firewall: { faults: [], unread: ['chain FORWARD is not read to its end'] } },
    'too-old': { release: '5.9.16', needed: new Set() },
    'strict-tunnel': sysctl('ipv4/conf/vxlan.netplug/rp_filter', '1'),
    'left-overs': { leftOvers: [{ plugin: 'flannel', devices: ['flannel.1'], chains: [], sets: [], pins: [] }] },
    ipvs: { ipvsDevices: ['kube-ipvs0'] },
    'pod-without-interface': {
      unconnected: [
        {
          network: 'net',
          containerId: 'c1',
          ifName: 'eth0',
          pod: 'shop/web',
          podUid: undefined,
          netns: '/run/netns/1',
        },
      ],
    },
    'pod-link': { incompleteLinks: [{ link: LINK, missing: ['no route to 10.65.0.1'] }] },
    'tunnel-taken': { rivals: ['vxlan.old'] },
    'route-overruled': { overruled: [{ path: PATH, by: BY }] },
    'gateway-overruled': { overruled: [{ path: PATH, by: { ...BY, device: PATH.device } }] },
    'rate-limit': { rateLimits: [LIMIT, { ...LIMIT, isBounded: true }] },
    'arp-ignored': sysctl('ipv4/conf/all/arp_ignore', '8'),
  });

  it.each(['vxlan.netplug', 'eth0'])('find that %s does not forward, while the host does', (link) => {
    const state = { ...KERNEL, ...sysctl(`ipv4/conf/${link}/forwarding`, '0') };
    const faults = KERNEL_CHECKS.flatMap(({ id, judge }) => judge(state).map((fault) => [id, fault]));
    const command = `sysctl -w net/ipv4/conf/${link}/forwarding=1`;
    const found = `net/ipv4/conf/${link}/forwarding is 0`;
    expect(faults).toEqual([['kernel/forwarding', expect.objectContaining({ found, command })]]);
  });

  it('ignore settings of a family that no pod has', () => {
    const state = { ...KERNEL, families: new Set<4 | 6>([4]), ...sysctl('ipv6/conf/all/forwarding', '0') };
    expect(KERNEL_CHECKS.flatMap(({ judge }) => judge(state))).toEqual([]);
  });

  it('require the kernel features that pools need', () => {
    const needs = (...spec: Parameters<typeof poolOf>[2][]): readonly string[] => [
      ...neededFor(spec.map((each) => poolOf('p', '10.0.0.0/16', each))),
    ];
    expect(needs()).toEqual(['veth']);
    expect(needs({})).toEqual(['veth']);
    expect(needs({ natOutgoing: true })).toEqual(['veth', 'nf_tables']);
    expect(needs({ vxlanMode: 'Always' }, { ipipMode: 'CrossSubnet' })).toEqual(['veth', 'vxlan', 'ipip', 'nf_tables']);
  });
});

const session = (state: string, bfd = 'Up') => ({ peer: '192.0.2.1', kind: 'mesh', state, bfd, since: '', info: '' });
const BGP: BgpFacts = { pools: ['"blue"'], bird: 'BIRD version 2.0.12', sessions: [session('Established')] };

describe('doctor checks of BGP', () => {
  expectEachCheck(BGP_CHECKS, BGP, {
    'no-bird': { bird: undefined },
    'old-bird': { bird: 'BIRD version 1.6.8' },
    'session-down': { sessions: [session('Active')] },
    'bfd-down': { sessions: [session('Established', 'Down')] },
  });

  it('do not require BIRD when no pool is in BGP mode', () => {
    expect(BGP_CHECKS.flatMap(({ judge }) => judge({ ...BGP, pools: [], bird: undefined }))).toEqual([]);
  });
});
