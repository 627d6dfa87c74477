// Hazards to an upgrade, seeded as real objects into a cluster in which nothing else changes. A check that cannot be seeded has
// its reason instead.
import { gzipSync } from 'node:zlib';
import type { Store } from '../../src/datastore/store.ts';
import { manifestObjects, RELEASE_MANIFESTS } from '../../src/install/cluster/release-manifests.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import type { Handle } from '../../src/model/names.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { hostEndpointOf, nodeName, poolOf } from './fixtures.ts';
import type { ApiServer } from './kube.ts';
import { MESH_HAZARDS } from './mesh-hazards.ts';
import type { Json } from './node.ts';
import { nodeStatus, OLD, patchStatus } from './upgradable-cluster.ts';

/** A cluster of three nodes, with everything rolled out and nothing that acts. */
export interface RestingCluster {
  readonly server: ApiServer;
  readonly store: Store;
}

export interface Seed {
  /** What the evidence must name. */
  readonly evidence: RegExp;
  /** Seeds the hazard, and returns how to undo it. */
  readonly seed: (cluster: RestingCluster) => Promise<() => Promise<unknown>>;
  /** Variables of the tool while the hazard is there. */
  readonly env?: (cluster: RestingCluster) => Promise<Readonly<Record<string, string>>>;
}

const never = new AbortController().signal;
const SYSTEM = ['-n', 'netplug-system'];
const AGENT = { kind: 'DaemonSet', name: 'netplug-node' };
const CONTROLLERS = { kind: 'Deployment', name: 'netplug-orch-controllers' };
const NODES = 3;

/** By the id of the check. */
export const HAZARDS: Readonly<Record<string, Seed | { readonly cannot: string }>> = {
  'server/too-old': { cannot: 'an API server tells its own version, and those that are built here are not too old' },
  'nodes/not-ready': nodeHazard(
    { conditions: [{ type: 'Ready', status: 'False', reason: 'KubeletNotReady' }] },
    'Node node-b',
  ),
  'nodes/cordoned': {
    evidence: /^Node node-b$/,
    seed: async ({ server }) => {
      await server.kubectl('cordon', 'node-b');
      return async () => server.kubectl('uncordon', 'node-b');
    },
  },
  'nodes/kubelet-too-old': nodeHazard({ kubeletVersion: 'v1.29.0' }, 'Node node-b (v1.29.0)'),
  'nodes/runtime-too-old': nodeHazard(
    { containerRuntimeVersion: 'containerd://1.6.20' },
    'Node node-b (containerd://1.6.20)',
  ),
  'nodes/kernel-too-old': nodeHazard({ kernelVersion: '4.19.0-27-amd64' }, 'Node node-b (4.19.0-27-amd64)'),
  'nodes/clock-skew': {
    evidence: /^Node node-b \(1\d\d s ahead\)$/,
    seed: async ({ server }) => {
      await server.kubectl('create', 'namespace', 'kube-node-lease').catch(() => undefined);
      const metadata = { name: 'node-b', namespace: 'kube-node-lease' };
      const renewTime = new Date(Date.now() + 120_000).toISOString().replace('Z', '000Z');
      await server.apply([{ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec: { renewTime } }]);
      return async () => server.kubectl('delete', 'lease', '--namespace=kube-node-lease', 'node-b');
    },
  },
  'nodes/architecture': nodeHazard({ architecture: 's390x' }, 'Node node-b (s390x)'),
  'nodes/agent-missing': podHazard({ ready: false }, /^Node node-b$/),
  'nodes/mixed-releases': {
    evidence: /^Pod netplug-node-node-b-\S+ \(netplug\.io\/netplug-node:v3\.25\.0\)$/,
    seed: async ({ server }) => {
      const { metadata } = await agentOn(server, 'node-b');
      const set = async (release: string): Promise<string> =>
        server.kubectl('set', 'image', `pod/${metadata.name}`, ...SYSTEM, `agent=netplug.io/netplug-node:${release}`);
      await set('v3.25.0');
      return async () => set(OLD);
    },
  },
  'nodes/pods-restarting': podHazard(
    {
      restartCount: 7,
      lastState: { terminated: { exitCode: 1, startedAt: null, finishedAt: new Date().toISOString() } },
    },
    /^Pod netplug-system\/netplug-node-node-b-\S+ \(7 restarts\)$/,
  ),
  'server/webhooks': objectHazard([webhook('deny.policy.example')], /^deny\.policy\.example\/deny\.policy\.example$/),
  'server/rights': {
    evidence: /clusterroles/,
    seed: async () => Promise.resolve(async () => Promise.resolve()),
    env: async ({ server }) => ({ KUBECONFIG: await server.kubeconfigFor(await readerToken(server)) }),
  },
  'release/unknown': {
    evidence: /^DaemonSet netplug-system\/netplug-node \(netplug\.io\/netplug-node:latest\)$/,
    seed: async (cluster) => {
      const pods = (await cluster.server.get('pods', ...SYSTEM)).items as readonly Json[];
      const setImages = async (from: string, to: string): Promise<void> => {
        for (const { metadata, spec } of pods) {
          const images = spec.containers.map(({ name, image }: Json) => `${name}=${image.replace(from, to)}`);
          await cluster.server.kubectl('set', 'image', `pod/${metadata.name}`, ...SYSTEM, ...images);
        }
      };
      const nameless = (workload: Json): Json => {
        const text = JSON.stringify(workload).replaceAll(`:${OLD}`, ':latest');
        const changed = JSON.parse(text);
        delete changed.metadata.labels['app.kubernetes.io/version'];
        return changed;
      };
      const undo = [await replaced(cluster, AGENT, nameless), await replaced(cluster, CONTROLLERS, nameless)];
      await setImages(`:${OLD}`, ':latest');
      return async () => {
        for (const each of undo) await each();
        await setImages(`:${OLD}`, `:${OLD}`);
      };
    },
  },
  'release/too-old': workloadHazard(CONTROLLERS, imageTag('v2.9.9'), /Deployment \S+-controllers \(v2\.9\.9\)$/),
  'release/newer': workloadHazard(CONTROLLERS, imageTag('v3.99.0'), /Deployment \S+-controllers \(v3\.99\.0\)$/),
  'objects/selector-changed': workloadHazard(
    AGENT,
    (workload) => {
      workload.spec.selector.matchLabels['k8s-app'] = 'netplug-node';
      workload.spec.template.metadata.labels['k8s-app'] = 'netplug-node';
    },
    /^DaemonSet netplug-system\/netplug-node$/,
  ),
  'pods/mtu-changed': {
    evidence: /^ConfigMap netplug-system\/netplug-config$/,
    seed: async ({ server }) => {
      const sound = await server.get('configmap', 'netplug-config', ...SYSTEM);
      const conflist = sound.data.conflist.replace(/"plugins": ?\[\s*\{/, '$& "mtu": 1400,');
      await server.apply([{ ...sound, data: { ...sound.data, conflist } }]);
      return async () => server.apply([sound]);
    },
  },
  'objects/refused': {
    evidence: /^ClusterRoleBinding /,
    seed: async ({ server }) => {
      // What a binding refers to cannot be changed.
      const [binding] = installed().filter(({ kind }) => kind === 'ClusterRoleBinding');
      const replace = async (by: Json): Promise<void> => {
        await server.kubectl('delete', 'clusterrolebinding', binding.metadata.name);
        await server.apply([by]);
      };
      await replace({ ...binding, roleRef: { ...binding.roleRef, name: 'view' } });
      return async () => replace(binding);
    },
  },
  'bindings/lose-rights': {
    evidence: /team-of-the-network/,
    seed: async ({ server }) => {
      const role = installed().find(
        ({ kind, metadata }) => kind === 'ClusterRole' && metadata.name === 'netplug-admin',
      );
      const more = { apiGroups: ['netplug.io'], resources: ['installations'], verbs: ['update'] };
      const api = 'rbac.authorization.k8s.io';
      const binding = {
        apiVersion: `${api}/v1`,
        kind: 'ClusterRoleBinding',
        metadata: { name: 'team-of-the-network' },
        roleRef: { apiGroup: api, kind: 'ClusterRole', name: 'netplug-admin' },
        subjects: [{ apiGroup: api, kind: 'User', name: 'ann' }],
      };
      await server.apply([{ ...role, rules: [...role.rules, more] }, binding]);
      return async () => {
        await server.apply([role]);
        await server.kubectl('delete', 'clusterrolebinding', 'team-of-the-network');
      };
    },
  },
  'admission/refused-pods': {
    evidence: /^Pod default\/asking /,
    seed: async ({ server }) => {
      const annotations = { 'cni.netplug/floatingIPs': '["192.0.2.7"]' };
      const spec = { containers: [{ name: 'c', image: 'c' }] };
      await server.apply([
        { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'asking', namespace: 'default', annotations }, spec },
      ]);
      return async () => void (await server.kubectl('delete', 'pod', 'asking', '--grace-period=0', '--force'));
    },
  },
  'admission/agent-outside-pod': { cannot: 'every agent of this cluster is a pod; a unit test judges others' },
  'objects/fields-lost': {
    evidence: /^DaemonSet netplug-system\/netplug-node$/,
    seed: async (cluster) => {
      const undo = await replaced(cluster, AGENT, (workload) => workload);
      const patch = JSON.stringify({ spec: { updateStrategy: { rollingUpdate: { maxUnavailable: 2, maxSurge: 0 } } } });
      const flags = ['--type=merge', `--patch=${patch}`, '--field-manager=kubectl-edit'];
      await cluster.server.kubectl('patch', 'daemonset', AGENT.name, ...SYSTEM, ...flags);
      await observe(cluster.server, AGENT);
      return undo;
    },
  },
  'objects/plugins-lost': {
    evidence: /^ConfigMap netplug-system\/netplug-config$/,
    seed: async ({ server }) => {
      const sound = installed().find(({ kind }) => kind === 'ConfigMap');
      const conflist = sound.data.conflist.replace('"plugins": [', '"plugins": [{ "type": "tuning" },');
      await server.apply([{ ...sound, data: { ...sound.data, conflist } }]);
      return async () => server.apply([sound]);
    },
  },
  'objects/parts-lost': workloadHazard(
    AGENT,
    ({ spec }) => {
      spec.template.spec.volumes.push({ name: 'of-mine', emptyDir: {} });
    },
    /^DaemonSet netplug-system\/netplug-node \(volume of-mine\)$/,
  ),
  'objects/gitops': {
    evidence: /^DaemonSet netplug-system\/netplug-node$/,
    seed: async ({ server }) => {
      const annotate = async (text: string): Promise<string> =>
        server.kubectl('annotate', 'daemonset', AGENT.name, ...SYSTEM, text);
      await annotate('argocd.argoproj.io/tracking-id=netplug:apps');
      return async () => annotate('argocd.argoproj.io/tracking-id-');
    },
  },
  'objects/rolling': {
    evidence: /^Deployment netplug-system\/netplug-orch-controllers$/,
    seed: async (cluster) => {
      await observe(cluster.server, CONTROLLERS, { updatedReplicas: 0 });
      return async () => observe(cluster.server, CONTROLLERS);
    },
  },
  'objects/on-delete': workloadHazard(
    AGENT,
    (workload) => {
      workload.spec.updateStrategy = { type: 'OnDelete' };
    },
    /^DaemonSet netplug-system\/netplug-node$/,
  ),
  'objects/images-by-other-registry': workloadHazard(
    CONTROLLERS,
    (workload) => {
      const [container] = workload.spec.template.spec.containers;
      container.image = container.image.replace('netplug.io/', 'registry.example:5000/netplug/');
    },
    /^Deployment \S+-controllers \(registry\.example:5000\/netplug\)$/,
  ),
  'objects/portmap-scale': { evidence: /^ConfigMap netplug-system\/netplug-config$/, seed: growCluster },
  'chart/pending': chartHazard(
    [{ name: 'calico', status: 'pending-upgrade' }],
    /^netplug-system\/calico \(pending-upgrade\)$/,
  ),
  'chart/several': chartHazard(
    [
      { name: 'calico', status: 'deployed' },
      { name: 'other', status: 'deployed' },
    ],
    /^netplug-system\/other$/,
  ),
  'chart/removed-kinds': chartHazard(
    [{ name: 'calico', status: 'deployed', kinds: ['PodSecurityPolicy'] }],
    /^Secret netplug-system\/sh\.helm\.release\.v1\.calico\.v1$/,
  ),
  'datastore/unreadable': objectHazard(
    [secretOf('broken', { stringData: { release: 'not a release' } })],
    /Secret netplug-system\/sh\.helm\.release\.v1\.broken\.v1: it is damaged/,
  ),
  'datastore/other': workloadHazard(AGENT, onEtcd, /^DaemonSet netplug-system\/netplug-node \(kvv3\)$/),
  'datastore/locked': clusterHazard({ datastoreReady: false }, { datastoreReady: true }, 'ClusterInformation default'),
  'datastore/record-unreadable': {
    evidence: /IPPool.*odd|odd.*cidr/i,
    // The API refuses such a record, but an older release may have stored it.
    seed: async ({ server }) => {
      const key = '/registry/netplug.io/ippools/odd';
      const metadata = { name: 'odd', uid: '00000000-0000-4000-8000-000000000000', generation: 1 };
      const pool = { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata, spec: { cidr: '10.0.0.0/33' } };
      await etcd(server, 'put', { key: base64(key), value: base64(JSON.stringify(pool)) });
      return async () => etcd(server, 'deleterange', { key: base64(key) });
    },
  },
  'datastore/newer': clusterHazard(
    { netplugVersion: 'v3.99.0' },
    { netplugVersion: OLD },
    'ClusterInformation default (v3.99.0)',
  ),
  'datastore/kv-recommended': {
    ...workloadHazard(AGENT, onEtcd, /^DaemonSet netplug-system\/netplug-node \(etcd\)$/),
    env: async ({ server }) => Promise.resolve({ KV_ENDPOINTS: server.etcdUrl }),
  },
  'addresses/inconsistent': {
    evidence: /^ipam\/block-outside-pools 10\.77\.0\.0\/26$/,
    seed: async (cluster) => blockSeed(cluster, emptyBlock(parseCidr('10.77.0.0/26'), nodeName('node-a'))),
  },
  'addresses/pool-full': {
    evidence: /^IPPool small \(100 %\)$/,
    seed: async (cluster) => {
      await cluster.store.createResource(poolOf('small', '10.78.0.0/26'), never);
      const undo = await blockSeed(cluster, fullBlock('10.78.0.0/26'));
      return async () => {
        await undo();
        await cluster.store.deleteResource({ kind: 'IPPool', name: 'small' }, never);
      };
    },
  },
  'addresses/pool-overlaps-nodes': {
    evidence: /^IPPool wide \(172\.20\.0\.0\/24\) overlaps .*, the address of node "node-a"$/,
    seed: async ({ store }) => {
      await store.createResource(poolOf('wide', '172.20.0.0/24'), never);
      return async () => store.deleteResource({ kind: 'IPPool', name: 'wide' }, never);
    },
  },
  'host-endpoints/unprepared': {
    evidence: /^HostEndpoint all$/,
    seed: async (cluster) => {
      const undo = await replaced(cluster, CONTROLLERS, (workload) => {
        imageTag('v3.13.5')(workload);
        return workload;
      });
      const undoEndpoint = await endpointSeed(cluster);
      return async () => {
        await undoEndpoint();
        await undo();
      };
    },
  },
  'host-endpoints/all-interfaces': { evidence: /^HostEndpoint all$/, seed: endpointSeed },
  'policy/prefix-meaning': {
    evidence: /^NetworkPolicy default\/web \(\/items\)$/,
    seed: async ({ server }) => {
      const ingress = [{ action: 'Allow', http: { paths: [{ prefix: '/items' }] } }];
      const metadata = { name: 'web', namespace: 'default' };
      const spec = { selector: 'all()', types: ['Ingress'], ingress };
      await server.apply([{ apiVersion: 'netplug.io/v3', kind: 'NetworkPolicy', metadata, spec }]);
      return async () => server.kubectl('delete', 'networkpolicies.netplug.io', 'web', '-n', 'default');
    },
  },
  ...MESH_HAZARDS,
};

/** Changes what the kubelet of node-b reports; facts of the machine are in `nodeInfo`. */
function nodeHazard(change: Json, evidence: string): Seed {
  const sound = nodeStatus('172.20.0.12');
  const changed =
    'conditions' in change ? { ...sound, ...change } : { ...sound, nodeInfo: { ...sound.nodeInfo, ...change } };
  return {
    evidence: exactly(evidence),
    seed: async ({ server }) => {
      await patchStatus(server, ['node', 'node-b'], changed);
      return async () => patchStatus(server, ['node', 'node-b'], sound);
    },
  };
}

/** Changes what the kubelet of node-b reports of the container of the agent. */
function podHazard(change: Json, evidence: RegExp): Seed {
  return {
    evidence,
    seed: async ({ server }) => {
      const { metadata, status } = await agentOn(server, 'node-b');
      const [sound] = status.containerStatuses;
      const set = async (container: Json): Promise<void> =>
        patchStatus(server, ['pod', metadata.name, ...SYSTEM], { containerStatuses: [container] });
      await set({ ...sound, ...change });
      return async () => set({ ...sound, lastState: {} });
    },
  };
}

function objectHazard(objects: readonly Json[], evidence: RegExp): Seed {
  return {
    evidence,
    seed: async ({ server }) => {
      await server.apply(objects);
      return async () => {
        for (const { kind, metadata } of objects) {
          const place = metadata.namespace === undefined ? [] : ['-n', metadata.namespace];
          await server.kubectl('delete', kind, metadata.name, ...place);
        }
      };
    },
  };
}

function clusterHazard(spec: Json, before: Json, evidence: string): Seed {
  return {
    evidence: exactly(evidence),
    seed: async ({ server }) => {
      const set = async (to: Json): Promise<string> =>
        server.kubectl(
          'patch',
          'clusterinformation',
          'default',
          '--type=merge',
          `--patch=${JSON.stringify({ spec: to })}`,
        );
      await set(spec);
      return async () => set(before);
    },
  };
}

interface Named {
  readonly kind: string;
  readonly name: string;
}

function workloadHazard(workload: Named, change: (object: Json) => void, evidence: RegExp): Seed {
  return {
    evidence,
    seed: async (cluster) =>
      replaced(cluster, workload, (object) => {
        change(object);
        return object;
      }),
  };
}

function installed(): readonly Json[] {
  return manifestObjects(RELEASE_MANIFESTS[0], { release: OLD }) as readonly Json[];
}

/** Installs a workload with a change, as a user who edits the manifest, and returns how to install it as it was. */
async function replaced(
  { server }: RestingCluster,
  { kind, name }: Named,
  change: (object: Json) => Json,
): Promise<() => Promise<void>> {
  const sound = installed().find((object) => object.kind === kind && object.metadata.name === name);
  const put = async (object: Json): Promise<void> => {
    await server.kubectl('delete', kind, name, ...SYSTEM);
    await server.apply([object]);
    await observe(server, { kind, name });
  };
  await put(change(structuredClone(sound)));
  return async () => put(sound);
}

/** Writes the status of a workload that is rolled out, as its controller does. */
async function observe(server: ApiServer, { kind, name }: Named, change: Json = {}): Promise<void> {
  const { metadata, spec } = await server.get(kind, name, ...SYSTEM);
  const { replicas = 1 } = spec;
  const status =
    kind === 'DaemonSet'
      ? {
          desiredNumberScheduled: NODES,
          currentNumberScheduled: NODES,
          numberMisscheduled: 0,
          numberReady: NODES,
          updatedNumberScheduled: NODES,
          numberAvailable: NODES,
        }
      : { replicas, updatedReplicas: replicas, readyReplicas: replicas, availableReplicas: replicas };
  await patchStatus(server, [kind, name, ...SYSTEM], { observedGeneration: metadata.generation, ...status, ...change });
}

function imageTag(release: string): (workload: Json) => void {
  return (workload) => {
    for (const container of workload.spec.template.spec.containers)
      container.image = container.image.replace(`:${OLD}`, `:${release}`);
  };
}

function onEtcd(workload: Json): void {
  const [container] = workload.spec.template.spec.containers;
  const variable = container.env.find(({ name }: Json) => name === 'DATASTORE_TYPE');
  variable.value = 'kvv3';
  container.env.push({ name: 'KV_ENDPOINTS', value: 'http://192.0.2.9:2379' });
}

async function agentOn(server: ApiServer, node: string): Promise<Json> {
  const flags = ['-l', 'app.kubernetes.io/name=netplug-node', `--field-selector=spec.nodeName=${node}`];
  const { items } = await server.get('pods', ...SYSTEM, ...flags);
  return items[0];
}

interface ChartRecord {
  readonly name: string;
  readonly status: string;
  readonly kinds?: readonly string[];
}

/** Records of helm as it writes them. */
function chartHazard(records: readonly ChartRecord[], evidence: RegExp): Seed {
  const secrets = records.map(({ name, status, kinds = [] }) => {
    const objects = [...kinds, 'Deployment'].map(
      (kind) => `apiVersion: v1\nkind: ${kind}\nmetadata:\n  name: netplug-operator\n`,
    );
    const release = {
      name,
      namespace: 'netplug-system',
      version: 1,
      info: { status },
      chart: { metadata: { name: 'netplug', version: OLD } },
      config: {},
      manifest: objects.join('---\n'),
    };
    const packed = gzipSync(JSON.stringify(release)).toString('base64');
    return secretOf(name, { data: { release: Buffer.from(packed).toString('base64') } });
  });
  return objectHazard(secrets, evidence);
}

function secretOf(name: string, content: Json): Json {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'helm.sh/release.v1',
    metadata: { name: `sh.helm.release.v1.${name}.v1`, namespace: 'netplug-system', labels: { owner: 'helm' } },
    ...content,
  };
}

async function endpointSeed({ store }: RestingCluster): Promise<() => Promise<unknown>> {
  await store.createResource(hostEndpointOf('all', 'node-a'), never);
  return async () => store.deleteResource({ kind: 'HostEndpoint', name: 'all' }, never);
}

/** As an agent claims a block. */
async function blockSeed({ store }: RestingCluster, block: IpBlock): Promise<() => Promise<unknown>> {
  const outcome = await store.commit([{ kind: 'create-block', block, pool: undefined }], never);
  if (outcome !== 'committed') throw new Error(`the block was not created: ${outcome}`);
  return async () => {
    const [before] = await store.getBlocks([block.cidr], never);
    if (before !== undefined) await store.commit([{ kind: 'delete-block', before }], never);
  };
}

/** Of calls that have just ended, so that their pods are still to come. */
function fullBlock(cidr: string): IpBlock {
  const block = emptyBlock(parseCidr(cidr), nodeName('node-a'));
  const holder = (ordinal: number): Allocation => ({
    id: `seed#${String(ordinal)}`,
    handle: `netplug.c${String(ordinal)}` as Handle,
    node: nodeName('node-a'),
    network: 'netplug',
    containerId: `c${String(ordinal)}`,
    ifName: 'eth0',
    at: new Date().toISOString(),
    chosenBy: 'node-selector',
  });
  const slots = new Map(Array.from({ length: 64 }, (_, ordinal) => [ordinal, holder(ordinal)] as const));
  return { ...block, slots, queue: [] };
}

const MORE_NODES = 100 - NODES;
const SERVICES = 4000;

/** Grows the cluster to 100 nodes with agents, and 4000 services. */
async function growCluster({ server }: RestingCluster): Promise<() => Promise<unknown>> {
  const labels = { seeded: 'yes' };
  await using api = new OrchApi({ from: 'file', path: server.kubeconfig }, { manager: 'seed' });
  const [agent] = (await server.get('pods', ...SYSTEM, '-l', 'app.kubernetes.io/name=netplug-node')).items;
  const names = Array.from({ length: MORE_NODES }, (_, index) => `more-${String(index)}`);
  const pods = { group: '', version: 'v1', plural: 'pods', namespace: 'netplug-system' };
  const containers = agent.spec.containers.map(({ name, image }: Json) => ({ name, image }));
  await eachOf(names, async (name, index) => {
    const status = nodeStatus(`172.21.0.${String(index + 1)}`);
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels }, status };
    await api.create({ collection: { group: '', version: 'v1', plural: 'nodes' }, object: node }, never);
    const metadata = {
      name: `agent-${name}`,
      namespace: 'netplug-system',
      labels: { ...agent.metadata.labels, ...labels },
    };
    const spec = { nodeName: name, containers, terminationGracePeriodSeconds: 0 };
    await api.create({ collection: pods, object: { apiVersion: 'v1', kind: 'Pod', metadata, spec } }, never);
    const { phase, conditions, containerStatuses } = agent.status;
    const body = { status: { phase, conditions, containerStatuses } };
    await api.patch({ collection: pods, name: metadata.name, subresource: 'status' }, { kind: 'merge', body }, never);
  });
  const services = { group: '', version: 'v1', plural: 'services', namespace: 'default' };
  await eachOf(Array.from({ length: SERVICES }), async (_, index) => {
    const metadata = { name: `s-${String(index)}`, namespace: 'default', labels };
    const spec = { clusterIP: 'None', ports: [{ port: 80 }] };
    await api.create({ collection: services, object: { apiVersion: 'v1', kind: 'Service', metadata, spec } }, never);
  });
  return async () => {
    const query = 'labelSelector=seeded%3Dyes&gracePeriodSeconds=0';
    for (const path of [
      '/api/v1/namespaces/netplug-system/pods',
      '/api/v1/nodes',
      '/api/v1/namespaces/default/services',
    ])
      await server.kubectl('delete', '--raw', `${path}?${query}`);
  };
}

async function eachOf<T>(items: readonly T[], act: (item: T, index: number) => Promise<void>): Promise<void> {
  const left = items.entries();
  const work = async (): Promise<void> => {
    for (const [index, item] of left) await act(item, index);
  };
  await Promise.all(Array.from({ length: 16 }, work));
}

/** May read everything, and write nothing but workloads. */
async function readerToken(server: ApiServer): Promise<string> {
  const token = await server.tokenFor('default/reader');
  const rules = [
    { apiGroups: ['*'], resources: ['*'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['apps'], resources: ['daemonsets'], verbs: ['patch'] },
  ];
  const rbac = 'rbac.authorization.k8s.io';
  await server.apply([
    { apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata: { name: 'reader' }, rules },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name: 'reader' },
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'reader' },
      subjects: [{ kind: 'ServiceAccount', name: 'reader', namespace: 'default' }],
    },
  ]);
  return token;
}

/** Calls the gateway of etcd. */
async function etcd(server: ApiServer, method: 'put' | 'deleterange', body: Json): Promise<void> {
  const answer = await fetch(`${server.etcdUrl}/v3/kv/${method}`, { method: 'POST', body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`etcd answered ${String(answer.status)}: ${await answer.text()}`);
}

function exactly(text: string): RegExp {
  return new RegExp(`^${text.replaceAll(/[.*+?^${}()|[\]\\/]/g, '\\$&')}$`);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** Fails for every new pod, because its service does not exist. */
export function webhook(name: string): Json {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name },
    webhooks: [
      {
        name,
        failurePolicy: 'Fail',
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
        clientConfig: { service: { name: 'policy', namespace: 'default' } },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
      },
    ],
  };
}
