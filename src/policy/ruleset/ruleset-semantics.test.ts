// The compiled table decides as the evaluator does.
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { type FilterPacket, judgePacket } from '../../../test/support/memory/judge-packet.ts';
import type { FilterTable } from '../../dataplane/policy-filter.ts';
import { parseAddress } from '../../net/address.ts';
import { change, globalPolicy, hostChange, hostEndpoint } from '../../../test/support/policy-arbitraries.ts';
import { NODE, PolicyCluster } from '../../../test/support/policy-cluster.ts';
import { type EndVerdict, evaluateEnd, evaluateHost, type HostQuestion } from '../evaluate.ts';
import { hostEndpointAt, hostEndpointsInForce, hostEndpointsOf } from '../host-interfaces.ts';
import type { Packet } from '../match-packet.ts';
import { failsafePorts, withServers, withTunnels } from '../open-ports.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyDirection, PolicyEndpoint } from '../resolved-policy.ts';
import type { RuleOrigin } from './policy-ruleset.ts';
import { RulesetCompiler } from './ruleset-compiler.ts';

const HOSTS = ['1', '2', '3', '4', '5', '6', '99'];
const OUTSIDE = { 4: ['10.66.3.4', '192.0.2.7', '203.0.113.1'], 6: ['fd00:66::9', '2001:db8::1'] } as const;
const PORTS = [80, 81, 443, 1500, 8001, 8002, 8003];

const packet: fc.Arbitrary<Packet> = fc.constantFrom(4 as const, 6 as const).chain((family) => {
  const pods = HOSTS.map((host) => (family === 4 ? `10.65.0.${host}` : `fd00:65::${host}`));
  const address = fc.constantFrom(...pods, ...OUTSIDE[family]).map(parseAddress);
  const port = fc.constantFrom(...PORTS);
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        source: address,
        destination: address,
        protocol: fc.constantFrom(6, 17, 132),
        sourcePort: port,
        destinationPort: port,
      }),
    },
    fc.record({
      source: address,
      destination: address,
      // Anything may be sent over IPv4, the number of ICMPv6 too.
      protocol: family === 4 ? fc.constantFrom(1, 58) : fc.constant(58),
      icmp: fc.record({ type: fc.constantFrom(1, 8, 128, 135), code: fc.constantFrom(0, 4) }),
    }),
    fc.record({ source: address, destination: address, protocol: fc.constantFrom(47, 50) }),
  );
});

function isShared({ endpoints }: PolicyView, { interfaceName }: PolicyEndpoint): boolean {
  return [...endpoints.values()].filter((each) => each.interfaceName === interfaceName).length > 1;
}

it('the table gives each packet the verdict of the evaluator', () => {
  let [allowed, denied, staged] = [0, 0, 0];
  fc.assert(
    fc.property(
      fc.array(change, { minLength: 8, maxLength: 40 }),
      fc.array(packet, { minLength: 20, maxLength: 20 }),
      (changes, packets) => {
        const cluster = new PolicyCluster();
        for (const apply of changes) apply(cluster);
        const { state: view } = cluster;
        const { table, origins } = new RulesetCompiler({
          node: NODE,
          logPrefix: 'netplug-packet',
          endpointToHostAction: 'Accept',
        }).compile(view);
        for (const endpoint of view.endpoints.values()) {
          if (endpoint.kind === 'host' || endpoint.interfaceName === undefined || isShared(view, endpoint)) continue;
          for (const direction of ['ingress', 'egress'] as const)
            for (const sent of packets) {
              const evaluated = evaluateEnd(view, { endpoint, direction, packet: sent });
              const { verdict, decision } = evaluated;
              const judged = judgeAt(endpoint, direction, sent);
              expect([judged.verdict, decision]).toEqual([verdict === 'allow' ? 'accept' : 'drop', decision]);
              const stagedRules = judged.counted.filter(({ id }) => isStaged(origins.get(id)));
              expect(stagedRules.map(({ id }) => shownOrigin(origins.get(id)))).toEqual(stagedIn(view, evaluated));
              staged += stagedRules.length;
              if (verdict === 'allow') allowed += 1;
              else denied += 1;
            }
        }

        function judgeAt(endpoint: PolicyEndpoint, direction: PolicyDirection, sent: Packet) {
          const isEgress = direction === 'egress';
          return judgePacket(table, 'forward', {
            ...filterPacket(sent),
            // No host endpoint is there.
            inInterface: isEgress ? (endpoint.interfaceName ?? '') : 'lo',
            outInterface: isEgress ? 'lo' : (endpoint.interfaceName ?? ''),
          });
        }
      },
    ),
    { numRuns: 80 },
  );
  // Clusters that allow or deny everything would prove nothing.
  expect(Math.min(allowed, denied, staged)).toBeGreaterThan(100);
});

function isStaged(origin: RuleOrigin | undefined): boolean {
  return origin?.kind === 'staged tier' || (origin?.kind === 'policy' && origin.isStaged);
}

function shownOrigin(origin: RuleOrigin | undefined): string {
  return origin?.kind === 'policy' ? `${origin.name} ${String(origin.index)}` : 'tier';
}

/** Returns the rules of staged policies that match; without an enforced policy, up to the one that would decide. */
function stagedIn(view: PolicyView, { endpoint, direction, decision, considered }: EndVerdict): readonly string[] {
  if (decision.kind === 'neighbour discovery') return [];
  const [tier] = view.tiers;
  const applied = tier === undefined ? [] : view.policiesOf(endpoint, tier, direction);
  const isEnforced = applied.some((policy) => !policy.isStaged);
  const found: string[] = [];
  for (const { policy, action, index, logs } of considered.filter((each) => each.isStaged)) {
    const decides = action === undefined ? [] : [index];
    found.push(...[...logs, ...decides].map((each) => `${policy} ${String(each)}`));
    if (action !== undefined && !isEnforced) return found;
  }
  return applied.length > 0 && !isEnforced ? [...found, 'tier'] : found;
}

function filterPacket({ sourcePort, destinationPort, icmp, source, destination, protocol }: Packet): FilterPacket {
  return {
    source,
    destination,
    protocol,
    ...(sourcePort === undefined || destinationPort === undefined
      ? {}
      : { ports: { source: sourcePort, destination: destinationPort } }),
    ...(icmp === undefined ? {} : { icmp }),
    state: 'new',
    isToHost: false,
  };
}

const INTERFACES = [
  { name: 'lo', addresses: ['127.0.0.1', '192.0.2.1'] },
  { name: 'eth0', addresses: ['192.0.2.1'] },
  { name: 'eth1', addresses: ['198.51.100.1'] },
  { name: 'eth2', addresses: ['192.0.2.1', '2001:db8::1'] },
];
const FAILSAFE = failsafePorts({
  failsafeInboundHostPorts: [
    { protocol: 'TCP', port: 443 },
    { protocol: 'UDP', port: 80, net: '10.65.0.0/29' },
  ],
  failsafeOutboundHostPorts: [{ protocol: 'TCP', port: 81 }],
});
const TUNNELS = [
  { protocol: 47, port: undefined },
  { protocol: 17, port: 1500 },
];

const SERVERS = ['10.65.0.3', 'fd00:65::3', '192.0.2.7'].map((text) => ({
  address: parseAddress(text),
  protocol: 6,
  port: 8001,
}));

it.each(['local', 'forwarded'] as const)(
  'a rule about requests opens nothing at a host, also where a pod guards the port: %s',
  (path) => {
    const cluster = new PolicyCluster();
    cluster.putGuard(5, [80]);
    cluster.put(globalPolicy('p', { protocol: 'TCP', http: {} }, { selector: 'all()', applyOnForward: true }));
    cluster.put(hostEndpoint('h', { interfaceName: '*' }));
    const compiler = new RulesetCompiler({
      node: NODE,
      logPrefix: 'netplug-packet',
      endpointToHostAction: 'Accept',
      failsafe: FAILSAFE,
    });
    compiler.useHost({ interfaces: INTERFACES, tunnels: TUNNELS, servers: SERVERS });
    const { table } = compiler.compile(cluster.state);
    const hooks = { table, raw: withChains(table, (own) => own < 0), rest: withChains(table, (own) => own >= 0) };
    const ends = { source: parseAddress('10.65.0.1'), destination: parseAddress('10.65.0.5') };
    const sent = { ...ends, protocol: 6, sourcePort: 40_000, destinationPort: 80 };
    const question = { direction: 'ingress', path, other: 'eth2', sent, packet: sent } as const;
    expect(judgeCrossing(hooks, 'eth1', question)).toBe('deny');
  },
);

it('the table gives each packet at an interface of the node the verdict of the evaluator', () => {
  const seen = new Set<string>();
  const crossing = fc.record({
    interfaceName: fc.constantFrom(...INTERFACES.map(({ name }) => name), 'nplunknown'),
    direction: fc.constantFrom('ingress' as const, 'egress' as const),
    path: fc.constantFrom('local' as const, 'forwarded' as const),
    other: fc.constantFrom(...INTERFACES.map(({ name }) => name)),
    packet,
    translatedPort: fc.option(fc.constantFrom(...PORTS), { nil: undefined }),
  });
  fc.assert(
    fc.property(
      fc.array(fc.oneof({ weight: 3, arbitrary: hostChange }, change), { minLength: 8, maxLength: 40 }),
      fc.array(crossing, { minLength: 60, maxLength: 60 }),
      (changes, crossings) => {
        const cluster = new PolicyCluster();
        for (const apply of changes) apply(cluster);
        const { state: view } = cluster;
        const compiler = new RulesetCompiler({
          node: NODE,
          logPrefix: 'netplug-packet',
          endpointToHostAction: 'Accept',
          failsafe: FAILSAFE,
        });
        compiler.useHost({ interfaces: INTERFACES, tunnels: TUNNELS, servers: SERVERS });
        const { table } = compiler.compile(view);
        const hooks = { table, raw: withChains(table, (own) => own < 0), rest: withChains(table, (own) => own >= 0) };
        const inForce = hostEndpointsInForce(hostEndpointsOf(view, NODE), INTERFACES);
        for (const { interfaceName, translatedPort, packet: sent, ...rest } of crossings) {
          // A node reaches its pods; the rest is decided by policies of pods.
          if (interfaceName.startsWith('npl') && !(rest.direction === 'egress' && rest.path === 'local')) continue;
          const isTranslated = translatedPort !== undefined && sent.destinationPort !== undefined;
          const after = isTranslated ? { ...sent, destinationPort: translatedPort } : sent;
          const question = { ...rest, sent, packet: after };
          const open = withServers(withTunnels(FAILSAFE, TUNNELS), SERVERS);
          const opposite = question.direction === 'ingress' ? 'egress' : 'ingress';
          const ends = [
            { direction: question.direction, at: interfaceName },
            ...(question.path === 'forwarded' ? [{ direction: opposite, at: question.other } as const] : []),
          ];
          const said = ends.map(({ direction, at }) => {
            const endpoint = hostEndpointAt(inForce, at);
            return endpoint && evaluateHost(view, { ...question, direction, endpoint, open });
          });
          const places = said.map((each) => [each?.endpoint.shown, each?.verdict, each?.paths.at(-1)]);
          const expected = said.some((each) => each?.verdict === 'deny') ? 'deny' : 'allow';
          expect([judgeCrossing(hooks, interfaceName, question), places]).toEqual([expected, places]);
          for (const each of said) {
            const last = each?.paths.at(-1);
            const decision = last?.end.decision;
            if (decision?.kind === 'open port') seen.add(`${last?.path ?? ''} ${decision.open.kind}`);
            seen.add(`${last?.path ?? 'none'} ${decision?.kind ?? ''} ${each?.verdict ?? ''}`);
          }
        }
      },
    ),
    { numRuns: 400 },
  );
  expect([...seen]).toEqual(
    expect.arrayContaining([
      'none  ',
      ...['local', 'forwarded', 'preDNAT', 'untracked'].flatMap((path) => [`${path} rule allow`, `${path} rule deny`]),
      'local tier default deny',
      'local profile rule allow',
      'local no profile deny',
      'local open port allow',
      'local failsafe',
      'local datastore',
      'forwarded no policy allow',
      'forwarded tier default deny',
    ]),
  );
}, 240_000);

interface Crossing {
  readonly sent: Packet;
  /** A second interface: the one at the other side when forwarded, or that of the route before translation. */
  readonly other: string;
}

/** Returns what the hooks that the packet passes do with it. */
function judgeCrossing(
  { table, raw, rest }: Readonly<Record<'table' | 'raw' | 'rest', FilterTable>>,
  name: string,
  { direction, path, packet: after, sent, other }: Omit<HostQuestion, 'endpoint' | 'open'> & Crossing,
): 'allow' | 'deny' {
  const [inInterface, outInterface] = direction === 'ingress' ? [name, other] : [other, name];
  const early = path === 'local' && direction === 'egress' ? 'output' : 'prerouting';
  const late = path === 'forwarded' ? 'forward' : direction === 'ingress' ? 'input' : 'output';
  const places = {
    prerouting: { inInterface },
    input: { inInterface },
    output: { outInterface },
    forward: { inInterface, outInterface },
  };
  // The hook of sent packets is before and after translation. The interface stays the one of the route before it.
  if (early === late) {
    const first = judgePacket(raw, 'output', { ...filterPacket(sent), ...places.output });
    if (first.verdict === 'drop') return 'deny';
    const isTranslated = !first.isUntracked && after !== sent;
    const state = first.isUntracked ? 'untracked' : 'new';
    const leaving = { ...filterPacket(after), outInterface, state, isTranslated } as const;
    const route = isTranslated ? other : outInterface;
    const verdicts = [
      judgePacket(rest, 'output', { ...leaving, outInterface: route }),
      judgePacket(table, 'postrouting', leaving),
    ];
    return verdicts.some(({ verdict }) => verdict === 'drop') ? 'deny' : 'allow';
  }
  const first = judgePacket(table, early, { ...filterPacket(sent), ...places[early] });
  if (first.verdict === 'drop') return 'deny';
  const state = first.isUntracked ? 'untracked' : 'new';
  const passing = { ...filterPacket(after), state, isMarked: first.isMarked, isTranslated: after !== sent } as const;
  const verdicts = [
    judgePacket(table, late, { ...passing, ...places[late] }),
    ...(late === 'forward' ? [judgePacket(table, 'postrouting', { ...passing, ...places.forward })] : []),
  ];
  return verdicts.some(({ verdict }) => verdict === 'drop') ? 'deny' : 'allow';
}

function withChains(table: FilterTable, isIn: (priority: number) => boolean): FilterTable {
  const chains = [...table.chains].filter(([, { hook }]) => hook === undefined || isIn(hook.priority));
  return { ...table, chains: new Map(chains) };
}
