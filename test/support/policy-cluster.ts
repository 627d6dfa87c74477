// Pods, namespaces and policies of Kubernetes as policy code sees them.
import type { KubernetesObject } from '../../src/model/from-kubernetes/kubernetes-object.ts';
import { fromKubernetesPolicy } from '../../src/model/from-kubernetes/network-policy.ts';
import { fromPod } from '../../src/model/from-kubernetes/pod.ts';
import { fromNamespace, fromServiceAccount } from '../../src/model/from-kubernetes/profiles.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import type { PolicyChange } from '../../src/policy/policy-change.ts';
import { parseAddress } from '../../src/net/address.ts';
import { PolicyState } from '../../src/policy/policy-state.ts';
import type { TouchedPolicy } from '../../src/policy/policy-view.ts';

export const NODE = 'node-1';

export interface TestPod {
  readonly namespace: string;
  readonly name: string;
  readonly addresses: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly ports?: readonly { readonly name: string; readonly containerPort: number; readonly protocol?: string }[];
  /** Of another node when undefined. */
  readonly interfaceName: string | undefined;
  /** `Running` unless given. */
  readonly phase?: 'Succeeded' | 'Failed';
  readonly isTerminating?: boolean;
  /** Its service account. */
  readonly account?: string;
}

export interface TestPolicy {
  readonly namespace: string;
  readonly name: string;
  /** As in Kubernetes. */
  readonly spec: unknown;
}

export class PolicyCluster {
  readonly state = new PolicyState();

  putNamespace(name: string, labels: Readonly<Record<string, string>> = {}): TouchedPolicy {
    const metadata = { name, labels: { 'kubernetes.io/metadata.name': name, ...labels } };
    return this.put(fromNamespace({ metadata }));
  }

  putAccount(namespace: string, name: string): TouchedPolicy {
    return this.put(fromServiceAccount({ metadata: { name, namespace } }));
  }

  removeAccount(namespace: string, name: string): TouchedPolicy {
    return this.remove(fromServiceAccount({ metadata: { name, namespace } }));
  }

  putPod(pod: TestPod): TouchedPolicy {
    const endpoint = fromPod(podObject(pod)).value;
    if (endpoint === undefined) {
      if (pod.phase === undefined) throw new Error(`pod ${pod.name} has no endpoint`);
      return this.removePod(pod);
    }
    const value = { ...endpoint, spec: { ...endpoint.spec, interfaceName: pod.interfaceName ?? '' } };
    return this.state.apply([{ kind: 'endpoint', key: `${pod.namespace}/${pod.name}`, value }]);
  }

  removePod({ namespace, name }: Pick<TestPod, 'namespace' | 'name'>): TouchedPolicy {
    return this.state.apply([{ kind: 'endpoint', key: `${namespace}/${name}` }]);
  }

  /** Has the pod with these last numbers of its addresses guard TCP ports. */
  putGuard(ordinal: number, ports: readonly number[]): TouchedPolicy {
    const addresses = [`10.65.0.${String(ordinal)}`, `fd00:65::${String(ordinal)}`].map(parseAddress);
    const value = ports.flatMap((port) => addresses.map((address) => ({ address, port })));
    return this.state.apply([{ kind: 'guard', key: `pod${String(ordinal)}`, value }]);
  }

  putPolicy({ namespace, name, spec }: TestPolicy): TouchedPolicy {
    const { value, problems } = fromKubernetesPolicy({ metadata: { name, namespace }, spec });
    if (value === undefined || problems.length > 0) throw new Error(problems.join('; '));
    return this.put(value);
  }

  removePolicy({ namespace, name }: Pick<TestPolicy, 'namespace' | 'name'>): TouchedPolicy {
    const { value } = fromKubernetesPolicy({ metadata: { name, namespace }, spec: { podSelector: {} } });
    if (value === undefined) throw new Error('a policy without rules is valid');
    return this.remove(value);
  }

  put(value: AnyResource): TouchedPolicy {
    return this.state.apply([{ ...changeOf(value), value }]);
  }

  remove(value: AnyResource): TouchedPolicy {
    return this.state.apply([changeOf(value)]);
  }
}

function changeOf({ kind, metadata }: AnyResource): PolicyChange & { kind: 'resource' } {
  const { name, namespace } = metadata;
  return { kind: 'resource', which: { kind, name, ...(namespace === undefined ? {} : { namespace }) } };
}

function podObject(pod: TestPod): KubernetesObject {
  const { namespace, name, addresses, labels = {}, ports = [], interfaceName, phase = 'Running' } = pod;
  const terminating = pod.isTerminating === true ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {};
  return {
    metadata: { name, namespace, labels: { pod: name, ...labels }, ...terminating },
    spec: {
      nodeName: interfaceName === undefined ? 'node-2' : NODE,
      ...(pod.account === undefined ? {} : { serviceAccountName: pod.account }),
      containers: [{ name: 'c', ports }],
    },
    status: { phase, podIPs: addresses.map((ip) => ({ ip })) },
  };
}
