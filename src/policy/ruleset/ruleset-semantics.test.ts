// The compiled table decides as the evaluator does.
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { judgePacket } from '../../dataplane/memory/judge-packet.ts';
import { parseAddress } from '../../net/address.ts';
import { change } from '../../../test/support/policy-arbitraries.ts';
import { NODE, PolicyCluster } from '../../../test/support/policy-cluster.ts';
import { type EndVerdict, evaluateEnd } from '../evaluate.ts';
import type { Packet } from '../match-packet.ts';
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
      protocol: fc.constant(family === 4 ? 1 : 58),
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
          if (endpoint.interfaceName === undefined || isShared(view, endpoint)) continue;
          for (const direction of ['ingress', 'egress'] as const)
            for (const sent of packets) {
              const evaluated = evaluateEnd(view, { endpoint, direction, packet: sent });
              const { verdict, decision } = evaluated;
              const judged = judgeAt(endpoint, direction, sent);
              expect([judged.verdict, decision]).toEqual([verdict === 'allow' ? 'accept' : 'drop', decision]);
              const stagedRules = judged.counted.filter((id) => isStaged(origins.get(id)));
              expect(stagedRules.map((id) => shownOrigin(origins.get(id)))).toEqual(stagedIn(view, evaluated));
              staged += stagedRules.length;
              if (verdict === 'allow') allowed += 1;
              else denied += 1;
            }
        }

        function judgeAt(endpoint: PolicyEndpoint, direction: PolicyDirection, sent: Packet) {
          const { sourcePort, destinationPort, icmp, source, destination, protocol } = sent;
          const isEgress = direction === 'egress';
          return judgePacket(table, 'forward', {
            source,
            destination,
            protocol,
            ...(sourcePort === undefined || destinationPort === undefined
              ? {}
              : { ports: { source: sourcePort, destination: destinationPort } }),
            ...(icmp === undefined ? {} : { icmp }),
            inInterface: isEgress ? (endpoint.interfaceName ?? '') : 'eth0',
            outInterface: isEgress ? 'eth0' : (endpoint.interfaceName ?? ''),
            state: 'new',
            isToHost: false,
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
