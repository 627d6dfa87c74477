// What current Kubernetes and containerd do with pods, as far as it concerns their network.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../support/cluster.ts';
import { startClusterDns } from '../support/cluster-dns.ts';
import type { ClusterNode } from '../support/cluster-node.ts';
import { type Json, until } from '../support/node.ts';
import { giveAccess, KUBECONFIG } from '../support/orch-access.ts';
import { startRoutedCluster } from '../support/routed-cluster.ts';
import { NETPLUGCTL } from '../support/built.ts';

const VXLAN = { vxlanMode: 'Always', natOutgoing: true };
const PORT = 8080;

/** The answer of a pod is its name. */
const SERVE = ['sh', '-c', `hostname > /tmp/index.html; exec httpd -f -p ${String(PORT)} -h /tmp`];
const SLEEP = ['sleep', '100000'];
/** What Pod Security's level `restricted` asks of a container. */
const RESTRICTED = {
  runAsNonRoot: true,
  runAsUser: 1000,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startRoutedCluster({
    pools: { 'default-ipv4': { cidr: '10.83.0.0/16', ...VXLAN }, 'default-ipv6': { cidr: 'fd00:83::/64', ...VXLAN } },
  });
  await startClusterDns(cluster);
  await start('client', { on: 0, command: SLEEP });
}, 240_000);
afterAll(async () => cluster?.[Symbol.asyncDispose]());

interface PodOptions {
  /** Index of its node. */
  readonly on?: number;
  readonly namespace?: string;
  readonly command?: readonly string[];
  readonly annotations?: Readonly<Record<string, string>>;
  /** Adds to the spec of the pod, and to that of its container. */
  readonly spec?: object;
  readonly container?: object;
}

function podOf(name: string, options: PodOptions = {}): object {
  const { on = 1, namespace = 'default', command = SERVE, annotations = {}, spec = {}, container = {} } = options;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, annotations, labels: { app: name } },
    spec: {
      nodeName: cluster.node(on).name,
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'main', image: 'busybox:1.35', command, ...container }],
      ...spec,
    },
  };
}

/** Starts the pod and returns it once it is ready. */
async function start(name: string, options: PodOptions = {}): Promise<Json> {
  const { namespace = 'default' } = options;
  await cluster.apply([podOf(name, options)]);
  return (await cluster.waitForPodsReady({ namespace, selector: `app=${name}`, count: 1 }))[0];
}

function ipsOf({ status }: Json): string[] {
  return status.podIPs.map(({ ip }: Json) => ip);
}

/** Waits until the host answers the client over HTTP with the text. */
async function expectAnswer(host: string, text: string, port = PORT): Promise<void> {
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${String(port)}/`;
  let last = '';
  await until(
    async () => {
      const ask = cluster.kubectl('exec', 'client', '--', 'wget', '-T', '3', '-q', '-O', '-', url);
      last = await ask.catch((cause: unknown) => String(cause));
      return last === `${text}\n`;
    },
    () => `${url} answers ${text}: ${last}`,
    60_000,
    250,
  );
}

function namespaceOf(name: string, labels: Readonly<Record<string, string>>): object {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

/** The namespace, once pods can be made in it. */
async function putNamespace(name: string, labels: Readonly<Record<string, string>>): Promise<void> {
  await cluster.apply([namespaceOf(name, labels)]);
  const accounts = async (): Promise<Json[]> => (await cluster.get('serviceaccounts', '-n', name)).items;
  await until(async () => (await accounts()).length > 0, 'the namespace has its account', 60_000, 250);
}

describe('a pod', () => {
  it('with a user namespace (hostUsers: false) reaches other pods and is reachable, in both families', async () => {
    const pod = await start('mapped', { spec: { hostUsers: false } });
    const map = await cluster.kubectl('exec', 'mapped', '--', 'cat', '/proc/self/uid_map');
    expect(Number(map.trim().split(/\s+/)[1]), 'root of the pod is not root of the node').toBeGreaterThan(0);
    for (const ip of ipsOf(pod)) await expectAnswer(ip, 'mapped');
    for (const ip of ipsOf(await cluster.get('pod', 'client')))
      await cluster.kubectl('exec', 'mapped', '--', 'ping', '-c', '1', '-W', '3', ip);
  });

  it('is reached through the port of a sidecar, whose name is in the endpoint', async () => {
    const sidecar = {
      name: 'proxy',
      image: 'busybox:1.35',
      restartPolicy: 'Always',
      command: ['sh', '-c', 'mkdir /tmp/www; echo sidecar > /tmp/www/index.html; exec httpd -f -p 9090 -h /tmp/www'],
      ports: [{ name: 'proxy', containerPort: 9090 }],
    };
    const pod = await start('with-sidecar', { spec: { initContainers: [sidecar] } });
    for (const ip of ipsOf(pod)) await expectAnswer(ip, 'sidecar', 9090);
    const endpoints = ['get', 'workloadendpoints', '--all-namespaces', '--output', 'json'];
    const { machine } = cluster.node(0);
    const output = await machine.exec(NETPLUGCTL, '--kubeconfig', cluster.api.kubeconfig, ...endpoints);
    const { items }: Json = JSON.parse(output);
    expect(items.find(({ spec }: Json) => spec.pod === 'with-sidecar').spec.ports).toEqual([
      { name: 'proxy', protocol: 'TCP', port: 9090 },
    ]);
  });

  it('keeps its addresses and loses no packet while its CPU is changed in place', async () => {
    const resources = { requests: { cpu: '10m' }, limits: { cpu: '100m' } };
    const resizePolicy = [{ resourceName: 'cpu', restartPolicy: 'NotRequired' }];
    const pod = await start('resized', { container: { resources, resizePolicy } });
    const more = {
      spec: { containers: [{ name: 'main', resources: { requests: { cpu: '20m' }, limits: { cpu: '200m' } } }] },
    };
    const ping = cluster.kubectl('exec', 'client', '--', 'ping', '-c', '40', '-i', '0.1', ipsOf(pod)[0] ?? '');
    await cluster.kubectl('patch', 'pod', 'resized', '--subresource=resize', `--patch=${JSON.stringify(more)}`);
    const allocated = async (): Promise<Json> => (await cluster.get('pod', 'resized')).status.containerStatuses[0];
    await until(async () => (await allocated()).resources?.limits?.cpu === '200m', 'the pod is resized', 60_000, 250);
    expect(ipsOf(await cluster.get('pod', 'resized'))).toEqual(ipsOf(pod));
    expect((await allocated()).restartCount).toBe(0);
    expect(await ping).toContain('40 packets transmitted, 40 packets received');
    for (const ip of ipsOf(pod)) await expectAnswer(ip, 'resized');
  });

  it('gets its network in a namespace that enforces the restricted Pod Security level', async () => {
    await putNamespace('strict', { 'pod-security.kubernetes.io/enforce': 'restricted' });
    await expect(cluster.apply([podOf('loose', { namespace: 'strict' })])).rejects.toThrow('violates PodSecurity');
    const pod = await start('tight', { namespace: 'strict', container: { securityContext: RESTRICTED } });
    for (const ip of ipsOf(pod)) await expectAnswer(ip, 'tight');
  });

  it('of a tenant requests an address outside the address manager only where the admission policy allows it', async () => {
    await cluster.kubectl('create', 'rolebinding', 'tenant', '--clusterrole=edit', '--user=tenant');
    const asking = { annotations: { 'cni.netplug/ipAddrsNoIpam': '["10.99.0.7"]' } };
    const run = ['run', 'dry', '--as=tenant', '--image=busybox:1.35', '--dry-run=server'];
    await expect(cluster.kubectl(...run, '--overrides', JSON.stringify({ metadata: asking }))).rejects.toThrow(
      'annotation cni.netplug/ipAddrsNoIpam needs the label netplug/allow-address-annotations on namespace "default"',
    );
    await cluster.kubectl(...run);
    await putNamespace('trusted', { 'netplug/allow-address-annotations': '' });
    const pod = await start('past', { namespace: 'trusted', ...asking });
    expect(ipsOf(pod)).toEqual(['10.99.0.7']);
  });
});

describe('a service of both families', () => {
  it('answers by its name and at either address, in front of a pod of the other node', async () => {
    await start('named');
    const spec = {
      ipFamilyPolicy: 'RequireDualStack',
      selector: { app: 'named' },
      ports: [{ port: 80, targetPort: PORT }],
    };
    await cluster.apply([{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'named' }, spec }]);
    const { clusterIPs } = (await cluster.get('service', 'named')).spec;
    expect(clusterIPs).toEqual([expect.stringMatching(/^10\.96\./), expect.stringMatching(/^fd00:10:96::/)]);
    for (const host of [...clusterIPs, 'named', 'named.default.svc.cluster.local'])
      await expectAnswer(host, 'named', 80);
    const look = ['nslookup', 'named.default.svc.cluster.local'];
    const found = await cluster.kubectl('exec', 'client', '--', ...look);
    for (const ip of clusterIPs) expect(found).toContain(`Address: ${String(ip)}`);
  });

  it('works with kube-proxy in nftables mode, whose tables coexist with those of netplug', async () => {
    const tables = await cluster.node(0).machine.exec('nft', 'list', 'tables');
    expect(tables.trim().split('\n')).toEqual(
      expect.arrayContaining(['table ip kube-proxy', 'table ip6 kube-proxy', expect.stringContaining('netplug')]),
    );
  });
});

describe('a node', () => {
  const conditionOf = async ({ name }: ClusterNode): Promise<Json> =>
    (await cluster.get('node', name)).status.conditions.find(({ type }: Json) => type === 'Ready');

  it('is not ready with the message of a failing STATUS, and ready again afterwards', async () => {
    const node = cluster.node(1);
    // Without the agent the standalone program answers, and it needs its own access to the API.
    await node.agent()?.stop();
    await node.machine.exec('mv', KUBECONFIG, `${KUBECONFIG}.away`);
    let last: Json;
    await until(
      async () => (last = await conditionOf(node)).status === 'False',
      () => `the node is not ready: ${JSON.stringify(last)}`,
      60_000,
      250,
    );
    expect(last.message).toContain('container runtime network not ready');
    expect(last.message).toContain(`orch.orchconfig "${KUBECONFIG}" cannot be read`);
    await node.machine.exec('mv', `${KUBECONFIG}.away`, KUBECONFIG);
    await node.startAgent();
    await until(async () => (await conditionOf(node)).status === 'True', 'the node is ready again', 60_000, 250);
  });

  it('connects pods with new tokens after the service accounts were recreated', async () => {
    await cluster.kubectl('delete', 'serviceaccount', 'netplug-cni', 'netplug-agent', '-n', 'netplug-system');
    await giveAccess(cluster);
    for (const on of [0, 1]) {
      const name = `renewed-${String(on)}`;
      for (const ip of ipsOf(await start(name, { on }))) await expectAnswer(ip, name);
    }
  });
});
