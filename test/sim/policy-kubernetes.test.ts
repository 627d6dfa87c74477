import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeResource } from '../../src/model/decode-resource.ts';
import { fromKubernetesPolicy } from '../../src/model/from-kubernetes/network-policy.ts';
import { fromNamespace, fromServiceAccount } from '../../src/model/from-kubernetes/profiles.ts';
import { parseAddress } from '../../src/net/address.ts';
import { endAt, evaluateConnection } from '../../src/policy/evaluate.ts';
import { PolicyState } from '../../src/policy/policy-state.ts';
import { naivelyAllows } from '../support/naive-network-policy.ts';
import { changesOf, kubernetesCluster, PORTS, PROTOCOLS } from '../support/policy-clusters.ts';

const NUMBERS: Readonly<Record<string, number>> = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1 };

/** Pods 1 to 6, and an address that no pod has. */
const host = fc.integer({ min: 1, max: 7 });
const traffic = fc
  .record({
    from: host,
    to: host,
    family: fc.constantFrom('10.0.0.', 'fd00::'),
    protocol: fc.constantFrom(...PROTOCOLS, 'ICMP' as const),
    port: fc.constantFrom(...PORTS, 82),
  })
  .map(({ from, to, family, ...rest }) => ({
    from: `${family}${String(from)}`,
    to: `${family}${String(to)}`,
    ...rest,
  }));

describe('Kubernetes network policies', () => {
  it('mean what a naive reading of their objects says', () => {
    let [allowed, denied] = [0, 0];
    fc.assert(
      fc.property(kubernetesCluster, fc.array(traffic, { minLength: 60, maxLength: 60 }), (cluster, tries) => {
        const view = new PolicyState();
        view.apply(changesOf(cluster));
        for (const each of tries) {
          const [source, destination] = [parseAddress(each.from), parseAddress(each.to)];
          const hasPort = each.protocol !== 'ICMP';
          const { verdict } = evaluateConnection(view, {
            source: endAt(view, source),
            destination: endAt(view, destination),
            packet: {
              source,
              destination,
              protocol: NUMBERS[each.protocol] ?? 0,
              ...(hasPort ? { sourcePort: 40_000, destinationPort: each.port } : { icmp: { type: 8, code: 0 } }),
            },
            endpointToHost: 'Accept',
          });
          const expected = naivelyAllows(cluster, each) ? 'allow' : 'deny';
          expect({ ...each, verdict }).toEqual({ ...each, verdict: expected });
          if (expected === 'allow') allowed += 1;
          else denied += 1;
        }
      }),
      { numRuns: 500 },
    );
    // Both happen often enough to mean something.
    expect(Math.min(allowed, denied)).toBeGreaterThan(3000);
  });

  it('become resources that every datastore accepts unchanged', () => {
    fc.assert(
      fc.property(kubernetesCluster, ({ policies, namespaces, accounts }) => {
        const made = [
          ...policies.flatMap((policy) => fromKubernetesPolicy(policy).value ?? []),
          ...namespaces.map(fromNamespace),
          ...accounts.map(fromServiceAccount),
        ];
        for (const resource of made) {
          const read = decodeResource(JSON.parse(JSON.stringify(resource)));
          expect(read).toEqual({ resource });
        }
      }),
      { numRuns: 300 },
    );
  });
});
