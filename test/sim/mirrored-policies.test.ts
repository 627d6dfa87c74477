// What the controllers store on etcd decides every connection as the objects of Kubernetes do that it was made from.
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planEndpointUpdate } from '../../src/apps/controllers/mirror-endpoints.ts';
import { planCopy } from '../../src/apps/controllers/mirror-resources.ts';
import type { ResourceWrite } from '../../src/apps/controllers/resource-write.ts';
import type { ResourceRecord } from '../../src/datastore/follow.ts';
import { decodeEndpoint, decodeFollowedResource } from '../../src/datastore/stored-resource.ts';
import { fromKubernetesPolicy } from '../../src/model/from-kubernetes/network-policy.ts';
import type { KubernetesObject } from '../../src/model/from-kubernetes/kubernetes-object.ts';
import { fromPod } from '../../src/model/from-kubernetes/pod.ts';
import { fromNamespace, fromServiceAccount } from '../../src/model/from-kubernetes/profiles.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { kubernetesPolicyName } from '../../src/model/policy-names.ts';
import { type ResourceId, resourceIdOf } from '../../src/model/resource-id.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseAddress } from '../../src/net/address.ts';
import { endAt, evaluateConnection } from '../../src/policy/evaluate.ts';
import type { PolicyChange } from '../../src/policy/policy-change.ts';
import { PolicyState } from '../../src/policy/policy-state.ts';
import { naivelyAllows } from '../support/naive-network-policy.ts';
import { changesOf, type KubernetesCluster, kubernetesCluster, PORTS, PROTOCOLS } from '../support/policy-clusters.ts';

const NUMBERS: Readonly<Record<string, number>> = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1 };

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
type Traffic = typeof traffic extends fc.Arbitrary<infer T> ? T : never;

describe('records that the controllers mirror [auth-mirror]', () => {
  it('decide every connection as the objects of Kubernetes do, also after these have changed', () => {
    let [allowed, denied] = [0, 0];
    const tries = fc.array(traffic, { minLength: 30, maxLength: 30 });
    fc.assert(
      fc.property(kubernetesCluster, kubernetesCluster, tries, (first, second, connections) => {
        const mirror = new Mirror();
        for (const cluster of [first, second]) {
          mirror.follow(cluster);
          const [mirrored, originals] = [stateOf(mirror.changes()), stateOf(changesOf(cluster))];
          for (const each of connections) {
            const verdict = verdictOf(mirrored, each);
            expect({ ...each, verdict }).toEqual({ ...each, verdict: verdictOf(originals, each) });
            expect({ ...each, verdict }).toEqual({ ...each, verdict: naivelyAllows(cluster, each) ? 'allow' : 'deny' });
            if (verdict === 'allow') allowed += 1;
            else denied += 1;
          }
        }
      }),
      { numRuns: 200 },
    );
    // Both happen often enough to mean something.
    expect(Math.min(allowed, denied)).toBeGreaterThan(1000);
  });

  it('name the object that each was made from, and are gone with it', () => {
    fc.assert(
      fc.property(kubernetesCluster, (cluster) => {
        const mirror = new Mirror();
        mirror.follow(cluster);
        const { namespaces, accounts, policies } = cluster;
        expect(mirror.names()).toEqual(
          [
            ...namespaces.map(({ metadata }) => `Profile kns.${metadata.name}`),
            ...accounts.map(({ metadata }) => `Profile ksa.${metadata.namespace ?? ''}.${metadata.name}`),
            ...policies.map(({ metadata }) => `NetworkPolicy ${metadata.namespace ?? ''}/knp.default.${metadata.name}`),
          ].toSorted(),
        );
        mirror.follow({ namespaces: [], accounts: [], pods: [], policies: [] });
        expect(mirror.names()).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });
});

/** What the datastore has: records are stored as JSON, and read back. */
class Mirror {
  readonly #resources = new Map<string, ResourceRecord>();
  #endpoints: readonly WorkloadEndpoint[] = [];
  #version = 0;

  follow({ namespaces, accounts, pods, policies }: KubernetesCluster): void {
    const originals = new Map(
      [
        ...namespaces.map((object) => recordOf(fromNamespace(object))),
        ...accounts.map((object) => recordOf(fromServiceAccount(object))),
        ...policies.map(policyRecord),
      ].map((record) => [keyOf(record.which), record]),
    );
    for (const key of new Set([...originals.keys(), ...this.#resources.keys()]))
      for (const change of planCopy(originals.get(key), this.#resources.get(key)).changes) this.#write(key, change);
    this.#endpoints = pods.flatMap((pod) => this.#endpointOf(pod) ?? []);
  }

  names(): readonly string[] {
    return [...this.#resources.keys()].toSorted();
  }

  changes(): PolicyChange[] {
    return [
      ...[...this.#resources.values()].map(({ which, value }) => ({ kind: 'resource', which, value }) as const),
      ...this.#endpoints.map((value) => ({ kind: 'endpoint', key: value.metadata.name, value }) as const),
    ];
  }

  #write(key: string, change: ResourceWrite): void {
    this.#version += 1;
    if (change.kind === 'delete') {
      this.#resources.delete(key);
      return;
    }
    const which = resourceIdOf(change.resource);
    const stored = JSON.parse(JSON.stringify(change.resource)) as object;
    this.#resources.set(key, {
      kind: 'resource',
      query: 0,
      key,
      version: String(this.#version),
      which,
      ...decodeFollowedResource(which, stored),
    });
  }

  /** The plugin has written it with what it knew when the pod was added, and removes it when the pod ends. */
  #endpointOf(pod: KubernetesObject): WorkloadEndpoint | undefined {
    const { value: wanted } = fromPod(pod);
    if (wanted === undefined) return undefined;
    const { ports: _ports, serviceAccountName: _account, ...spec } = wanted.spec;
    const [profile = ''] = spec.profiles;
    const written = {
      ...wanted,
      metadata: { ...wanted.metadata, labels: { app: 'old' } },
      spec: { ...spec, profiles: [profile] },
    };
    const update = planEndpointUpdate(wanted, { value: written, version: '1' });
    const stored = decodeEndpoint(JSON.parse(JSON.stringify(update?.endpoint ?? written)));
    if (typeof stored === 'string') throw new Error(stored);
    if (planEndpointUpdate(wanted, { value: stored, version: '2' }) !== undefined)
      throw new Error('it is written twice');
    return stored;
  }
}

function stateOf(changes: readonly PolicyChange[]): PolicyState {
  const state = new PolicyState();
  state.apply(changes);
  return state;
}

function verdictOf(view: PolicyState, { from, to, protocol, port }: Traffic): string {
  const [source, destination] = [parseAddress(from), parseAddress(to)];
  const rest = protocol === 'ICMP' ? { icmp: { type: 8, code: 0 } } : { sourcePort: 40_000, destinationPort: port };
  return evaluateConnection(view, {
    source: endAt(view, source),
    destination: endAt(view, destination),
    packet: { source, destination, protocol: NUMBERS[protocol] ?? 0, ...rest },
    endpointToHost: 'Accept',
  }).verdict;
}

function policyRecord(object: KubernetesObject): ResourceRecord {
  const { value, problems } = fromKubernetesPolicy(object);
  const { name, namespace = 'default' } = object.metadata;
  const which = { kind: 'NetworkPolicy', namespace, name: kubernetesPolicyName(name) } as const;
  const problem = problems.length === 0 ? undefined : problems.join('; ');
  return { kind: 'resource', query: 0, key: '', version: '', which, value, problem };
}

function recordOf(value: AnyResource): ResourceRecord {
  return { kind: 'resource', query: 0, key: '', version: '', which: resourceIdOf(value), value };
}

function keyOf({ kind, namespace, name }: ResourceId): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
}
