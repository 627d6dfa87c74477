import { describe, expect, it } from 'vitest';
import { readObject } from '../kube/objects.ts';
import { decodeStoredResource } from '../model/decode-resource.ts';
import { fromKubernetesPolicy } from '../model/from-kubernetes/network-policy.ts';
import { fromPod } from '../model/from-kubernetes/pod.ts';
import { fromNamespace } from '../model/from-kubernetes/profiles.ts';
import type { KubernetesObject } from '../model/from-kubernetes/kubernetes-object.ts';
import { resourceIdOf } from '../model/resource-id.ts';
import { parseAddress } from '../net/address.ts';
import { endAt, evaluateConnection } from './evaluate.ts';
import { PolicyState } from './policy-state.ts';

/** What objects of JavaScript inherit, or what libraries leave out against it; each is a legal label key. */
const KEYS = ['prototype', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'a/constructor'];

interface Cluster {
  readonly namespaceLabels?: object;
  readonly client?: object;
  readonly server?: object;
  readonly policy?: unknown;
  readonly own?: unknown;
}

/** Reads a JSON text as the client of the API does. */
function asRead(object: unknown): KubernetesObject {
  const read = readObject(JSON.parse(JSON.stringify(object)));
  if (read === undefined) throw new Error('no object');
  return read;
}

/** Reports whether the pod `dev/cli` reaches the pod `shop/db`. */
function reaches({ namespaceLabels = {}, client = {}, server = {}, policy, own }: Cluster): boolean {
  const view = new PolicyState();
  const resources = [
    fromNamespace(asRead({ metadata: { name: 'dev', labels: namespaceLabels } })),
    fromNamespace(asRead({ metadata: { name: 'shop' } })),
    ...(policy === undefined
      ? []
      : [fromKubernetesPolicy(asRead({ metadata: { name: 'p', namespace: 'shop' }, spec: policy })).value]),
    ...(own === undefined ? [] : [stored(own)]),
  ].filter((each) => each !== undefined);
  const pods = [
    { namespace: 'dev', name: 'cli', labels: client, ip: '10.0.0.1' },
    { namespace: 'shop', name: 'db', labels: server, ip: '10.0.0.2' },
  ];
  view.apply([
    ...resources.map((value) => ({ kind: 'resource', which: resourceIdOf(value), value }) as const),
    ...pods.map(({ ip, ...metadata }) => {
      const { value } = fromPod(asRead({ metadata, spec: { nodeName: 'n1' }, status: { podIPs: [{ ip }] } }));
      return { kind: 'endpoint', key: metadata.name, value } as const;
    }),
  ]);
  const [source, destination] = [parseAddress('10.0.0.1'), parseAddress('10.0.0.2')];
  const ends = { source: endAt(view, source), destination: endAt(view, destination) };
  const packet = { source, destination, protocol: 6, sourcePort: 40_000, destinationPort: 80 };
  return evaluateConnection(view, { ...ends, packet, endpointToHost: 'Accept' }).verdict === 'allow';
}

function stored(spec: unknown): Exclude<ReturnType<typeof decodeStoredResource>, string> {
  const metadata = { name: 'own', namespace: 'shop' };
  const read = decodeStoredResource({ apiVersion: 'netplug.io/v3', kind: 'NetworkPolicy', metadata, spec });
  if (typeof read === 'string') throw new Error(read);
  return read;
}

describe.each(KEYS)('the label key "%s"', (key) => {
  const label = { [key]: 'true' };

  it('selects namespaces of peers', () => {
    const policy = { podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: label } }] }] };
    expect(reaches({ policy })).toBe(false);
    expect(reaches({ policy, namespaceLabels: label })).toBe(true);
  });

  it('selects the pods that a policy applies to, by value and by presence', () => {
    for (const podSelector of [{ matchLabels: label }, { matchExpressions: [{ key, operator: 'Exists' }] }]) {
      const policy = { podSelector, policyTypes: ['Ingress'] };
      expect(reaches({ policy })).toBe(true);
      expect(reaches({ policy, server: label })).toBe(false);
    }
  });

  it('selects peers in a policy of netplug', () => {
    const own = {
      ingress: [
        { action: 'Deny', source: { selector: `has(${key})`, namespaceSelector: 'all()' } },
        { action: 'Allow' },
      ],
    };
    expect(reaches({ own })).toBe(true);
    expect(reaches({ own, client: label })).toBe(false);
  });
});
