// The API of the orchestrator as the only datastore of a real cluster: pools by kubectl, pods by kubelets.
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { type Json, until } from '../support/node.ts';
import { giveAccess, KUBECONFIG } from '../support/orch-access.ts';

const NETPLUGCTL = resolve(import.meta.dirname, '../../dist/bin/netplugctl');

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({
    pools: {},
    conflist: (node) => {
      const { kv_endpoints: _, ...netconf } = node.netconf({
        datastore_type: 'orch',
        orch: { orchconfig: KUBECONFIG },
        policy: { type: 'orch' },
        ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' },
      });
      return { cniVersion: '1.0.0', name: 'k8s-pod-network', plugins: [netconf] };
    },
  });
  await giveAccess(cluster);
  await cluster.apply([
    poolOf('a-only', '10.90.0.0/24', "netplug-test/side == 'a'"),
    poolOf('b-only', '10.91.0.0/24', "netplug-test/side == 'b'"),
    poolOf('six', 'fd00:90::/64', 'all()'),
  ]);
  for (const [index, side] of ['a', 'b'].entries()) {
    await cluster.kubectl('label', 'node', cluster.node(index).name, `netplug-test/side=${side}`);
  }
}, 240_000);
afterAll(async () => cluster?.[Symbol.asyncDispose]());

function poolOf(name: string, cidr: string, nodeSelector: string): object {
  return { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata: { name }, spec: { cidr, nodeSelector } };
}

function podTemplate(app: string): Json {
  return {
    metadata: { labels: { app } },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'main', image: 'busybox:1.35', command: ['sleep', '100000'] }],
    },
  };
}

function workload(kind: 'Deployment' | 'StatefulSet' | 'DaemonSet', name: string, replicas: number): object {
  const counted = kind === 'DaemonSet' ? {} : { replicas };
  const service = kind === 'StatefulSet' ? { serviceName: name, podManagementPolicy: 'Parallel' } : {};
  const spec = { ...counted, ...service, selector: { matchLabels: { app: name } }, template: podTemplate(name) };
  return { apiVersion: 'apps/v1', kind, metadata: { name }, spec };
}

/** Addresses that blocks say are held. */
async function held(): Promise<string[]> {
  const { items } = await cluster.get('ipblocks.netplug.io');
  return items.flatMap(({ spec }: Json) =>
    Object.values(spec.slots ?? {}).map((slot: Json) => `${slot.namespace}/${slot.pod}`),
  );
}

async function expectNothingHeld(): Promise<void> {
  let last: string[] = [];
  await until(
    async () => (last = await held()).length === 0,
    () => `nothing is held: ${JSON.stringify(last)}`,
    120_000,
  );
  for (const { machine } of cluster.nodes) expect(await machine.hostLinks()).toEqual([]);
}

/** The management tool on the control plane, as an administrator uses it. */
async function ctl(...args: string[]): Promise<string> {
  const env = { DATASTORE_TYPE: 'orch', ORCHCONFIG: cluster.api.kubeconfig };
  const { status, stdout, stderr } = await cluster.control.run([NETPLUGCTL, ...args], { env });
  if (status !== 0) throw new Error(`netplugctl ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

describe('a cluster that keeps its addresses in its own API', () => {
  it('runs a Deployment, a StatefulSet and a DaemonSet with addresses of the pools that select their nodes [orch-datastore] [auth-rbac]', async () => {
    await cluster.apply([
      workload('Deployment', 'web', 4),
      workload('StatefulSet', 'db', 2),
      workload('DaemonSet', 'agent', 0),
    ]);
    const pods = (
      await Promise.all([
        cluster.waitForPodsReady({ selector: 'app=web', count: 4 }),
        cluster.waitForPodsReady({ selector: 'app=db', count: 2 }),
        cluster.waitForPodsReady({ selector: 'app=agent', count: 2 }),
      ])
    ).flat();
    for (const { status, spec, metadata } of pods) {
      const [v4, v6] = status.podIPs.map(({ ip }: Json) => ip);
      expect(v4).toMatch(spec.nodeName === cluster.node(0).name ? /^10\.90\.0\./ : /^10\.91\.0\./);
      expect(v6).toMatch(/^fd00:90::/);
      expect(metadata.annotations['cni.netplug/podIPs']).toBe(`${v4}/32,${v6}/128`);
    }
    expect(new Set(pods.flatMap(({ status }) => status.podIPs.map(({ ip }: Json) => ip))).size).toBe(16);
    const [{ ip }] = pods[0].status.podIPs;
    expect(await ctl('get', 'ippools')).toContain('a-only');
    expect(await ctl('ipam', 'show', '--ip', ip)).toMatch(/chosen by: +node-selector[^]*considered: +a-only: /);
    expect(await ctl('ipam', 'check', '--no-kernel')).toContain('16 held addresses, 8 endpoints');
    await cluster.kubectl('delete', 'deployment/web', 'statefulset/db', 'daemonset/agent');
    await expectNothingHeld();
  });

  it('loses nothing when the API server dies and comes back in the middle of pod starts', async () => {
    await cluster.apply([workload('Deployment', 'storm', 40)]);
    await until(async () => (await held()).length > 5, 'pods are starting', 60_000);
    await cluster.api.restart();
    const pods = await cluster.waitForPodsReady({ selector: 'app=storm', count: 40 });
    const ips = pods.flatMap(({ status }) => status.podIPs.map(({ ip }: Json) => ip));
    expect(new Set(ips).size).toBe(80);
    expect((await held()).length).toBe(80);
    await cluster.kubectl('delete', 'deployment', 'storm', '--wait=false');
    await expectNothingHeld();
  }, 300_000);

  it('goes on after kubelet and containerd were started again', async () => {
    await cluster.apply([workload('Deployment', 'calm', 2)]);
    const before = await cluster.waitForPodsReady({ selector: 'app=calm', count: 2 });
    for (const node of cluster.nodes) {
      await node.stopKubelet();
      await node.containerd.restart();
      await node.startKubelet();
    }
    const after = await cluster.waitForPodsReady({ selector: 'app=calm', count: 2 });
    expect(after.map(({ status }) => status.podIP)).toEqual(before.map(({ status }) => status.podIP));
    await cluster.kubectl('delete', 'deployment', 'calm');
    await expectNothingHeld();
  });
});
