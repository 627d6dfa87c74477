import { describe, expect, it } from 'vitest';
import { parseCidr } from '../../../net/cidr.ts';
import { type Family, parseAddress } from '../../../net/address.ts';
import type { FilterRule, HostFilter } from './host-filter.ts';
import { FIREWALL_SEVERITIES, type FirewallJudgement, judgeFirewall } from './judge-firewall.ts';
import type { NodeTraffic } from './traffic.ts';

const POOLS = ['10.65.0.0/16', 'fd00:65::/48'].map(parseCidr);
const NODE: NodeTraffic = {
  families: new Set([4, 6]),
  pools: POOLS,
  own: new Map([[4, { address: parseAddress('192.0.2.11'), device: 'eth0' }]]),
  peers: ['192.0.2.12', '192.0.2.200'].map(parseAddress),
  tunnels: [],
  direct: new Set([4, 6]),
  bgpPort: undefined,
};
const BOTH: readonly FilterRule[] = [
  { matches: ['iifname npl*'], action: 'accept' },
  { matches: ['oifname npl*'], action: 'accept' },
];

const STATEFUL: readonly FilterRule[] = [{ matches: ['state established related'], action: 'accept' }];
const FROM_PODS: readonly FilterRule[] = [
  { matches: ['iifname npl*'], action: 'accept' },
  { matches: ['iifname vxlan.netplug'], action: 'accept' },
];
const AMONG_PODS: FilterRule = { matches: ['saddr 10.65.0.0/16', 'daddr 10.65.0.0/16'], action: 'accept' };
const TUNNELLED = { tunnels: ['vxlan4'], direct: new Set<Family>() } as const;

function judge(filter: HostFilter, more: Partial<NodeTraffic> = {}): FirewallJudgement {
  return judgeFirewall({ filters: [filter], unread: [] }, { ...NODE, ...more });
}

function filterWith(FORWARD: readonly FilterRule[], more: Partial<HostFilter> = {}): HostFilter {
  const { rules = {}, ...rest } = more;
  return {
    family: 'ip',
    table: 'filter',
    chain: 'FORWARD',
    hook: 'forward',
    isLegacy: false,
    policy: 'drop',
    rules: { FORWARD, ...rules },
    ...rest,
  };
}

describe('filters of forwarded packets', () => {
  it.each([
    ['a policy that drops', filterWith([])],
    ['a last rule that drops', filterWith([{ matches: [], action: 'drop' }], { policy: 'accept' })],
    ['only packets from pods accepted', filterWith(BOTH.slice(0, 1))],
    ['rules for other interfaces only', filterWith([{ matches: ['iifname docker0'], action: 'accept' }])],
    ['rules with conditions', filterWith(BOTH.map(({ matches, action }) => ({ matches: [...matches, '?'], action })))],
    ['rules after one that drops', filterWith([{ matches: [], action: 'drop' }, ...BOTH])],
    [
      'rules after the end of a chain',
      filterWith([{ matches: [], action: '>OWN' }], { rules: { OWN: [{ matches: [], action: 'return' }, ...BOTH] } }),
    ],
    [
      'ranges of one family in a table of both families',
      filterWith(
        [
          { matches: ['saddr 10.0.0.0/8'], action: 'accept' },
          { matches: ['daddr 10.0.0.0/8'], action: 'accept' },
        ],
        { family: 'inet' },
      ),
    ],
  ])('are reported with %s', (_what, filter) => {
    expect(judge(filter).faults.map(({ code }) => code)).toEqual(['kernel/forward-dropped']);
  });

  it.each([
    ['a policy that accepts', filterWith([{ matches: ['?'], action: 'drop' }], { policy: 'accept' })],
    ['links of pods accepted', filterWith(BOTH)],
    [
      'links of pods accepted in a chain that is called',
      filterWith([{ matches: [], action: '>DOCKER-USER' }], { rules: { 'DOCKER-USER': BOTH } }),
    ],
    [
      'ranges of pods accepted',
      filterWith([
        { matches: ['saddr 10.0.0.0/8'], action: 'accept' },
        { matches: ['daddr 10.65.0.0/16'], action: 'accept' },
      ]),
    ],
    ['everything accepted', filterWith([{ matches: [], action: 'accept' }])],
  ])('are not reported with %s', (_what, filter) => {
    expect(judge(filter)).toEqual({ faults: [], unread: [] });
  });

  it.each([
    ['connections to pods from', '-o npl+', [...STATEFUL, ...FROM_PODS]],
    ['connections of pods to', '-i npl+', [AMONG_PODS, ...BOTH.slice(1)]],
    ['connections between pods and', '-i npl+ -j ACCEPT && iptables-nft -I FORWARD -o npl+', [AMONG_PODS]],
    ['connections between pods and', '-i npl+ -j ACCEPT && iptables-nft -I FORWARD -o npl+', FROM_PODS],
  ])('are a warning where pods reach one another: it drops %s addresses outside the pools', (what, options, rules) => {
    expect(judge(filterWith(rules), TUNNELLED)).toEqual({
      faults: [
        {
          code: 'kernel/outside-dropped',
          found: `chain FORWARD of table "ip filter" drops ${what} addresses outside the pools`,
          remedy:
            'If pods or Services need them, accept these packets now, and configure the firewall to make that permanent',
          command: `iptables-nft -I FORWARD ${options} -j ACCEPT`,
        },
      ],
      unread: [],
    });
    expect(FIREWALL_SEVERITIES['kernel/outside-dropped']).toBe('warning');
  });

  it('are from pods of other nodes by tunnels, and by the uplink without', () => {
    const [uplink, nothing] = [['iifname eth0'], ['iifname eth9']].map((matches) =>
      filterWith([...STATEFUL, ...BOTH.slice(0, 1), { matches, action: 'accept' }]),
    ) as [HostFilter, HostFilter];
    expect(judge(uplink)).toEqual({ faults: [], unread: [] });
    for (const [filter, more] of [
      [uplink, TUNNELLED],
      [nothing, TUNNELLED],
      [nothing, {}],
    ] as const)
      expect(judge(filter, more).faults).toMatchObject([{ code: 'kernel/forward-dropped' }]);
    expect(judge(nothing, { ...TUNNELLED, peers: [] }).faults).toMatchObject([{ code: 'kernel/outside-dropped' }]);
  });

  it('are not known from outside where marks or translations may be accepted', () => {
    for (const match of ['?', 'status any'])
      expect(judge(filterWith([...STATEFUL, ...FROM_PODS, { matches: [match], action: 'accept' }]), TUNNELLED)).toEqual(
        {
          faults: [],
          unread: [expect.stringContaining('conditions that are not read')],
        },
      );
  });

  it('are reported with the chain for rules of administrators, and the setting of ufw', () => {
    const docker = filterWith([{ matches: [], action: '>DOCKER-USER' }], { rules: { 'DOCKER-USER': [] } });
    const ufw = filterWith([{ matches: [], action: '>ufw-before-forward' }], { rules: { 'ufw-before-forward': [] } });
    expect(judge(docker).faults).toEqual([
      {
        code: 'kernel/forward-dropped',
        found: 'chain FORWARD of table "ip filter" drops packets of pods',
        remedy: 'Accept packets of pods now, and configure the firewall to make that permanent',
        command: 'iptables-nft -I DOCKER-USER -i npl+ -j ACCEPT && iptables-nft -I DOCKER-USER -o npl+ -j ACCEPT',
      },
    ]);
    expect(judge(ufw).faults).toMatchObject([
      {
        remedy:
          'Accept packets of pods now, and set DEFAULT_FORWARD_POLICY="ACCEPT" in /etc/default/ufw to make that permanent',
        command: expect.stringMatching(/^iptables-nft -I FORWARD /),
      },
    ]);
  });

  it('suggest no command with names that a shell would not take as they are', () => {
    const [plain, odd] = ['wall', 'wall; reboot'].map(
      (table) => judge(filterWith([], { family: 'inet', table })).faults,
    );
    expect(plain).toMatchObject([{ command: expect.stringContaining('nft insert rule inet wall FORWARD iifname ') }]);
    expect(odd).toMatchObject([{ found: 'chain FORWARD of table "inet wall; reboot" drops packets of pods' }]);
    expect(odd?.[0]).not.toHaveProperty('command');
  });

  it('are not known where a set of addresses that is not read may have the pods', () => {
    const { faults, unread } = judge(filterWith([{ matches: ['? set friends'], action: 'accept' }]));
    expect([faults, unread]).toEqual([
      [],
      ['chain FORWARD of table "ip filter" is not read to its end: it has a rule with set friends'],
    ]);
    expect(judge(filterWith([{ matches: ['? set enemies'], action: 'drop' }])).faults).toHaveLength(1);
  });
});

const VXLAN = { tunnels: ['vxlan4'] } as const;

function inputWith(INPUT: readonly FilterRule[], more: Partial<HostFilter> = {}): HostFilter {
  const { rules = {}, ...rest } = more;
  return filterWith([], { chain: 'INPUT', hook: 'input', ...rest, rules: { INPUT, ...rules } });
}

describe('filters of what a node receives', () => {
  it.each([
    ['a policy that drops', inputWith([])],
    [
      'a rule for the port',
      inputWith([{ matches: ['protocol 17', 'dport 4789'], action: 'drop' }], { policy: 'accept' }),
    ],
    ['a rule for the uplink', inputWith([{ matches: ['iifname eth0'], action: 'drop' }], { policy: 'accept' })],
    [
      'a rule for the network of the nodes',
      inputWith([{ matches: ['saddr 192.0.2.0/24'], action: 'drop' }], { policy: 'accept' }),
    ],
    ['answers accepted', inputWith([{ matches: ['state established related'], action: 'accept' }])],
    ['answers accepted by a match of iptables', inputWith([{ matches: ['state ?'], action: 'accept' }])],
    ['translated packets accepted', inputWith([{ matches: ['status any'], action: 'accept' }])],
    ['packets for other hosts accepted', inputWith([{ matches: ['!daddrtype local'], action: 'accept' }])],
    ['loopback accepted', inputWith([{ matches: ['iif 1'], action: 'accept' }])],
    ['other ports accepted', inputWith([{ matches: ['protocol 17', 'dport 53 8472'], action: 'accept' }])],
    ['the port of another protocol accepted', inputWith([{ matches: ['protocol 6', 'dport 4789'], action: 'accept' }])],
    ['other interfaces accepted', inputWith([{ matches: ['!iifname eth0'], action: 'accept' }])],
    [
      'a chain that drops',
      inputWith(
        [
          { matches: [], action: '>>END' },
          { matches: [], action: 'accept' },
        ],
        { rules: { END: [{ matches: [], action: 'drop' }] } },
      ),
    ],
  ])('are reported with %s', (_what, filter) => {
    expect(judge(filter, VXLAN).faults).toMatchObject([
      {
        code: 'kernel/tunnel-dropped',
        found: 'chain INPUT of table "ip filter" drops VXLAN (UDP 4789) from other nodes',
        command: 'iptables-nft -I INPUT -p udp --dport 4789 -j ACCEPT',
      },
    ]);
    // Without a tunnel, and without another node, nothing arrives.
    for (const none of [{}, { ...VXLAN, peers: [] }]) expect(judge(filter, none)).toEqual({ faults: [], unread: [] });
  });

  it.each([
    ['the port accepted', inputWith([{ matches: ['protocol 17', 'dport 4000-5000'], action: 'accept' }])],
    ['new flows accepted', inputWith([{ matches: ['state established new'], action: 'accept' }])],
    ['the nodes accepted', inputWith([{ matches: ['saddr 192.0.2.0-192.0.2.255'], action: 'accept' }])],
    [
      'packets for this host let back from a chain that drops',
      inputWith([{ matches: [], action: '>NOT-LOCAL' }], {
        policy: 'accept',
        rules: {
          'NOT-LOCAL': [
            { matches: ['daddrtype local'], action: 'return' },
            { matches: [], action: 'drop' },
          ],
        },
      }),
    ],
    ['other nodes dropped', inputWith([{ matches: ['!saddr 192.0.2.0/24'], action: 'drop' }], { policy: 'accept' })],
    ['special packets dropped', inputWith([{ matches: ['?'], action: 'drop' }], { policy: 'accept' })],
    [
      'a set dropped that is not read',
      inputWith([{ matches: ['? set enemies'], action: 'drop' }], { policy: 'accept' }),
    ],
    ['a policy for another family', inputWith([], { family: 'ip6' })],
  ])('are not reported with %s', (_what, filter) => {
    expect(judge(filter, VXLAN)).toEqual({ faults: [], unread: [] });
  });

  it.each([
    ['?', 'conditions that are not read'],
    ['? set friends', 'set friends'],
    ['sport 1024-65535', 'conditions that are not read'],
  ])('are not known where "%s" may accept before', (match, what) => {
    for (const action of ['accept', 'return', '>>ELSE'] as const)
      expect(judge(inputWith([{ matches: [match], action }]), VXLAN)).toEqual({
        faults: [],
        unread: [`chain INPUT of table "ip filter" is not read to its end: it has a rule with ${what}`],
      });
  });

  it('name the nodes that they tell apart', () => {
    const one = inputWith([{ matches: ['saddr 192.0.2.12/32'], action: 'accept' }]);
    expect(judge(one, VXLAN).faults.map(({ found }) => found)).toEqual([
      'chain INPUT of table "ip filter" drops VXLAN (UDP 4789) from 192.0.2.200',
    ]);
  });

  it.each([
    ['one rule for all', (nodes: readonly string[]) => [nodes.join(' ')]],
    ['a rule for each', (nodes: readonly string[]) => nodes],
  ])('name the node that a list of thousands lacks, with %s', (_what, listsOf) => {
    const peers = Array.from({ length: 5000 }, (_, index) => `198.18.${String(index >> 8)}.${String(index & 255)}`);
    const rules = listsOf(peers.toSpliced(4000, 1)).map((list): FilterRule => ({
      matches: [`saddr ${list}`],
      action: 'accept',
    }));
    const { faults } = judge(inputWith(rules), { ...VXLAN, peers: peers.map(parseAddress) });
    expect(faults.map(({ found }) => found)).toEqual([
      'chain INPUT of table "ip filter" drops VXLAN (UDP 4789) from 198.18.15.160',
    ]);
  });

  it('are not known for tunnels where packets without tracking are accepted', () => {
    const untracked = inputWith([{ matches: ['state established related untracked'], action: 'accept' }]);
    for (const tunnel of ['vxlan4', 'ipip4'] as const)
      expect(judge(untracked, { tunnels: [tunnel] })).toEqual({
        faults: [],
        unread: [expect.stringContaining('states of connections')],
      });
  });

  it('are judged for IP-in-IP, whose packets are answers to what this node sends, and for BGP', () => {
    const answers = inputWith([{ matches: ['state established'], action: 'accept' }]);
    expect(judge(answers, { tunnels: ['ipip4'] })).toMatchObject({
      faults: [],
      unread: [expect.stringContaining('states of connections')],
    });
    expect(judge(inputWith([]), { tunnels: ['ipip4'], bgpPort: 1790 }).faults).toMatchObject([
      { code: 'kernel/tunnel-dropped', command: 'iptables-nft -I INPUT -p 4 -j ACCEPT' },
      { code: 'kernel/bgp-dropped', command: 'iptables-nft -I INPUT -p tcp --dport 1790 -j ACCEPT' },
    ]);
  });

  it('are judged for what the node sends as well', () => {
    const output = filterWith([], { chain: 'out', hook: 'output', table: 'wall', family: 'inet' });
    expect(judge(output, VXLAN).faults).toMatchObject([
      {
        found: 'chain out of table "inet wall" drops VXLAN (UDP 4789) to other nodes',
        command: 'nft insert rule inet wall out udp dport 4789 accept',
      },
    ]);
  });

  it('are judged where neither nodes nor addresses are known', () => {
    const unknown = { ...VXLAN, own: new Map(), peers: undefined };
    expect(judge(inputWith([]), unknown).faults).toHaveLength(1);
    expect(judge(inputWith([{ matches: ['saddr 192.0.2.0/24'], action: 'accept' }]), unknown).faults).toEqual([]);
  });
});

it('says that a table of legacy iptables is not read, where pods have its family', () => {
  const unread = (['ip', 'ip6'] as const).map((family) => ({
    family,
    table: 'filter',
    reason: 'iptables-legacy fails: locked',
  }));
  expect(judgeFirewall({ filters: [], unread }, { ...NODE, families: new Set([4]) }).unread).toEqual([
    'legacy table "ip filter" is not read: iptables-legacy fails: locked',
  ]);
});
