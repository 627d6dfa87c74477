// CoreDNS in a cluster, where kubelets send pods for names.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Cluster } from './cluster.ts';
import { program } from './components.ts';
import { makeImage } from './image.ts';

/** Address of the service that answers for names; what kubelets tell pods. */
export const DNS_ADDRESS = '10.96.0.10';
export const CLUSTER_DOMAIN = 'cluster.local';

const NAMESPACE = 'kube-system';
const IMAGE = 'netplug.test/coredns:1';
const LABELS = { 'k8s-app': 'kube-dns' };

const COREFILE = `.:53 {
  errors
  health
  ready
  kubernetes ${CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {
    pods insecure
    fallthrough in-addr.arpa ip6.arpa
    ttl 5
  }
  forward . /etc/resolv.conf
  cache 5
  reload 2s
}
`;

/** Starts it on the network of the pods, and returns when it serves names. */
export async function startClusterDns(cluster: Pick<Cluster, 'nodes' | 'apply' | 'waitForPodsReady'>): Promise<void> {
  await putClusterDns(cluster);
  await cluster.waitForPodsReady({ namespace: NAMESPACE, selector: 'k8s-app=kube-dns', count: 1 });
}

/** Imports its image on every node and creates its objects; its pod starts as soon as there is a network. */
export async function putClusterDns(cluster: Pick<Cluster, 'nodes' | 'apply'>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'netplug-coredns-'));
  try {
    const image = { names: [IMAGE], config: { Entrypoint: ['/coredns'] }, files: { '/coredns': program('coredns') } };
    const archive = await makeImage(join(folder, 'image'), image);
    await Promise.all(cluster.nodes.map(async ({ containerd }) => containerd.importImage(archive)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  await cluster.apply(manifests());
}

function manifests(): object[] {
  const metadata = { name: 'coredns', namespace: NAMESPACE };
  const rules = [
    { apiGroups: [''], resources: ['services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
  ];
  const subject = { kind: 'ServiceAccount', name: 'coredns', namespace: NAMESPACE };
  const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:coredns' };
  const container = {
    name: 'coredns',
    image: IMAGE,
    args: ['-conf', '/etc/coredns/Corefile'],
    volumeMounts: [{ name: 'config', mountPath: '/etc/coredns' }],
    readinessProbe: { httpGet: { path: '/ready', port: 8181 }, periodSeconds: 1 },
  };
  const pod = {
    serviceAccountName: 'coredns',
    // Other names than those of the cluster go to the name server of the node.
    dnsPolicy: 'Default',
    priorityClassName: 'system-cluster-critical',
    containers: [container],
    volumes: [{ name: 'config', configMap: { name: 'coredns' } }],
  };
  const ports = ['UDP', 'TCP'].map((protocol) => ({ name: `dns-${protocol.toLowerCase()}`, port: 53, protocol }));
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'system:coredns' }, rules },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'system:coredns' },
      roleRef: role,
      subjects: [subject],
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { Corefile: COREFILE } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { ...metadata, labels: LABELS },
      spec: { replicas: 1, selector: { matchLabels: LABELS }, template: { metadata: { labels: LABELS }, spec: pod } },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'kube-dns', namespace: NAMESPACE, labels: LABELS },
      spec: { clusterIP: DNS_ADDRESS, ipFamilyPolicy: 'PreferDualStack', selector: LABELS, ports },
    },
  ];
}
