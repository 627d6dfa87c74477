// Pods of other nodes, namespaces and policies that exist only as records: the agent of every node follows them.
import type { Change } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { formatAddress } from '../../src/net/address.ts';
import { addressAt, parseCidr } from '../../src/net/cidr.ts';
import { nodeName } from '../../test/support/fixtures.ts';

export interface RemotePods {
  /** Adds pods until there are so many, spread over all namespaces and teams. */
  growTo(pods: number): Promise<void>;
  /** Adds policies until there are so many. Each namespace has its share of them. */
  addPolicies(count: number): Promise<void>;
  /** A pod starts elsewhere. */
  start(pod: number): Promise<void>;
  /** It ends. */
  end(pod: number): Promise<void>;
  put(resource: AnyResource): Promise<void>;
  remove(name: string): Promise<void>;
}

export const NAMESPACES = 50;
const TEAMS = 100;
/** Pods of `start` have numbers from here on. */
export const FIRST_SINGLE = 20_000;
const NODES = 100;
const PODS = parseCidr('10.96.0.0/12');
const PER_COMMIT = 60;
const DEADLINE_MS = 60_000;

export function openRemotePods(store: Store): RemotePods {
  let [size, policies] = [0, 0];
  const signal = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
  const commit = async (changes: readonly Change[]): Promise<void> => {
    if ((await store.commit(changes, signal())) !== 'committed') throw new Error('a record has changed meanwhile');
  };
  const put: RemotePods['put'] = async (resource) => {
    await store.updateResource(resource, signal()).catch(async (cause: unknown) => {
      if (!isNetplugError(cause, 'resource/not-found')) throw cause;
      return store.createResource(resource, signal());
    });
  };
  return {
    growTo: async (wanted) => {
      if (size === 0) for (let index = 0; index < NAMESPACES; index += 1) await put(namespaceOf(index));
      for (; size < wanted; size += PER_COMMIT) {
        const numbers = Array.from({ length: Math.min(PER_COMMIT, wanted - size) }, (_, index) => size + index);
        await commit(numbers.map((number) => ({ kind: 'put-endpoint', endpoint: podOf(number) })));
      }
      size = wanted;
    },
    addPolicies: async (wanted) => {
      for (; policies < wanted; policies += 1) await put(policyOf(policies));
    },
    start: async (pod) => commit([{ kind: 'put-endpoint', endpoint: podOf(pod) }]),
    end: async (pod) => {
      const { metadata, spec } = podOf(pod);
      const id = { node: spec.node, namespace: metadata.namespace ?? '', name: metadata.name };
      const { endpoint } = await store.readNodeView(nodeName(spec.node), id, signal());
      if (endpoint !== undefined) await commit([{ kind: 'delete-endpoint', before: endpoint }]);
    },
    put,
    remove: async (name) => store.deleteResource({ kind: 'GlobalNetworkPolicy', name }, signal()),
  };
}

/** The address of a remote pod. */
export function podAddress(pod: number): string {
  return formatAddress(addressAt(PODS, pod));
}

/** The name of a namespace of remote pods. */
export function namespaceName(index: number): string {
  return `ns${String(index)}`;
}

/** Everything is open but for policies. */
export function namespaceOf(index: number, labelsToApply: Readonly<Record<string, string>> = {}): AnyResource {
  const rules = [{ action: 'Allow' as const }];
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'Profile',
    metadata: { name: `kns.${namespaceName(index)}` },
    spec: { labelsToApply, ingress: rules, egress: rules },
  };
}

/** Lets the pods of one namespace be reached by one team. */
export function policyOf(number: number): AnyResource {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkPolicy',
    metadata: { name: `remote-${String(number)}` },
    spec: {
      order: number,
      selector: `netplug/namespace == '${namespaceName(number % NAMESPACES)}'`,
      types: ['Ingress'],
      ingress: [
        { action: 'Allow', protocol: 'TCP', source: { selector: teamOf(number) }, destination: { ports: [8080] } },
      ],
    },
  };
}

function teamOf(number: number): string {
  return `team == 't${String(number % TEAMS)}'`;
}

export function podOf(number: number): WorkloadEndpoint {
  const namespace = namespaceName(number % NAMESPACES);
  const pod = `pod-${String(number)}`;
  const node = `elsewhere-${String(number % NODES)}`;
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: {
      name: endpointName({ node, orchestrator: 'orch', workload: pod, endpoint: 'eth0' }),
      namespace,
      labels: {
        'netplug/namespace': namespace,
        'netplug/orchestrator': 'orch',
        team: `t${String(number % TEAMS)}`,
        app: `app-${String(number % 500)}`,
        'pod-template-hash': (number >> 3).toString(16),
      },
    },
    spec: {
      orchestrator: 'orch',
      node,
      network: 'k8s-pod-network',
      containerID: number.toString(16).padStart(64, '0'),
      pod,
      endpoint: 'eth0',
      interfaceName: `npl${number.toString(16).padStart(11, '0')}`,
      mac: '02:00:00:00:00:01',
      ipNetworks: [`${podAddress(number)}/32`],
      profiles: [`kns.${namespace}`],
      ipam: 'netplug-ipam',
    },
  };
}
