// Real kubelets on both datastores: workloads of every kind, restarts, a power cut, an API server that dies in a storm.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SIZES } from '../runs.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { startedAgain } from './cluster-load.ts';
import { type Json, until } from './node.ts';
import { giveAccess, KUBECONFIG } from './orch-access.ts';
import { NETPLUGCTL } from './built.ts';

const IPAM = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };
/** Pods of the storm; `make soak` starts a hundred. */
const { podStorm: STORM } = SIZES;
const POOLS = [
  poolOf('a-only', '10.90.0.0/22', "netplug-test/side == 'a'"),
  poolOf('b-only', '10.91.0.0/22', "netplug-test/side == 'b'"),
  poolOf('six', 'fd00:90::/64', 'all()'),
];
const SIDES = ['a', 'b'];

interface Bench {
  /** Fields of the network configuration. */
  conf(netconf: Record<string, Json>): object;
  /** Environment with which netplugctl reaches the records. */
  env(cluster: Cluster): Record<string, string>;
  /** Labels of nodes, where the orchestrator does not keep them. */
  readonly nodes: readonly object[];
}

const BENCHES: Readonly<Record<'orch' | 'kv', Bench>> = {
  orch: {
    conf: (netconf) => ({ ...netconf, kv_endpoints: undefined, datastore_type: 'orch' }),
    env: ({ api }) => ({ DATASTORE_TYPE: 'orch', ORCHCONFIG: api.kubeconfig }),
    nodes: [],
  },
  kv: {
    conf: (netconf) => netconf,
    env: () => ({ KV_ENDPOINTS: 'http://127.0.0.1:2379' }),
    nodes: SIDES.map((side) => ({
      apiVersion: 'netplug.io/v3',
      kind: 'Node',
      metadata: { name: `node-${side}`, labels: { 'netplug-test/side': side } },
    })),
  },
};

function poolOf(name: string, cidr: string, nodeSelector: string): object {
  return { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata: { name }, spec: { cidr, nodeSelector } };
}

function podTemplate(app: string): Json {
  return {
    // The list of these clusters has no bandwidth entry, so that the annotation does nothing.
    metadata: { labels: { app }, annotations: { 'orch/ingress-bandwidth': '10M' } },
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

/** What holds in a whole cluster, whichever datastore it keeps its records in. */
export function describeCluster(datastore: keyof typeof BENCHES): void {
  const bench = BENCHES[datastore];
  describe(`a cluster with its records in ${datastore}`, () => {
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await startCluster({
        pools: {},
        conflist: (node) => {
          const more = { orch: { orchconfig: KUBECONFIG }, policy: { type: 'orch' }, ipam: IPAM };
          return { cniVersion: '1.0.0', name: 'k8s-pod-network', plugins: [bench.conf(node.netconf(more))] };
        },
      });
      await giveAccess(cluster);
      const file = join(cluster.control.dir, 'resources.json');
      await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [...POOLS, ...bench.nodes] }));
      await ctl('apply', '-f', file);
      for (const [index, side] of SIDES.entries()) {
        await cluster.kubectl('label', 'node', cluster.node(index).name, `netplug-test/side=${side}`);
      }
    }, 240_000);
    afterAll(async () => cluster?.[Symbol.asyncDispose]());

    /** The management tool on the control plane, as an administrator uses it. */
    const ctl = async (...args: string[]): Promise<string> => {
      const { status, stdout, stderr } = await cluster.control.run([NETPLUGCTL, ...args], { env: bench.env(cluster) });
      if (status !== 0) throw new Error(`netplugctl ${args.join(' ')}: ${stdout}${stderr}`);
      return stdout;
    };
    /** How many addresses the pools have given. */
    const held = async (): Promise<number> =>
      JSON.parse(await ctl('ipam', 'show', '-o', 'json')).pools.reduce(
        (sum: number, pool: Json) => sum + Number(pool.held),
        0,
      );
    const expectHeld = async (count: number): Promise<void> => {
      let last = -1;
      await until(
        async () => (last = await held()) === count,
        () => `${String(count)} addresses are held, not ${String(last)}`,
        180_000,
        500,
      );
      expect(last).toBe(count);
      expect(await ctl('ipam', 'check', '--no-kernel')).toContain('nothing wrong');
    };
    const ipsOf = (pods: readonly Json[]): string[] =>
      pods.flatMap(({ status }) => status.podIPs.map(({ ip }: Json) => ip));

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
      for (const { status, spec } of pods) {
        const [v4, v6] = status.podIPs.map(({ ip }: Json) => ip);
        expect(v4).toMatch(spec.nodeName === cluster.node(0).name ? /^10\.90\./ : /^10\.91\./);
        expect(v6).toMatch(/^fd00:90::/);
      }
      expect(new Set(ipsOf(pods)).size).toBe(16);
      for (const { machine } of cluster.nodes) expect(await machine.exec('tc', 'qdisc', 'show')).not.toContain('tbf');
      const [ip = ''] = ipsOf(pods);
      expect(await ctl('get', 'ippools')).toContain('a-only');
      expect(await ctl('ipam', 'show', '--ip', ip)).toMatch(/chosen by: +node-selector[^]*considered: +.*a-only: /);
      await expectHeld(16);
      await cluster.kubectl('delete', 'deployment/web', 'statefulset/db', 'daemonset/agent');
      await expectHeld(0);
    });

    it('works after a restart of kubelet and containerd', async () => {
      await cluster.apply([workload('Deployment', 'calm', 2)]);
      const before = await cluster.waitForPodsReady({ selector: 'app=calm', count: 2 });
      for (const node of cluster.nodes) {
        await node.stopKubelet();
        await node.containerd.restart();
        await node.startKubelet();
      }
      const after = await cluster.waitForPodsReady({ selector: 'app=calm', count: 2 });
      expect(ipsOf(after)).toEqual(ipsOf(before));
      await cluster.kubectl('delete', 'deployment', 'calm');
      await expectHeld(0);
    });

    it('gives pods addresses again after a power cut of their node, and leaks none of the old ones', async () => {
      await cluster.apply([workload('Deployment', 'survivor', 4)]);
      await cluster.waitForPodsReady({ selector: 'app=survivor', count: 4 });
      const onNode = ['--selector=app=survivor', '--field-selector=spec.nodeName=node-a'];
      await startedAgain(cluster, onNode, async () => cluster.node(0).reboot());
      const pods = await cluster.waitForPodsReady({ selector: 'app=survivor', count: 4 });
      await expectHeld(8);
      expect(new Set(ipsOf(pods)).size).toBe(8);
      await cluster.kubectl('delete', 'deployment', 'survivor');
      await expectHeld(0);
    }, 300_000);

    it(`loses nothing when the API server is killed and restarted in the middle of ${String(STORM)} pod starts`, async () => {
      await cluster.apply([workload('Deployment', 'storm', STORM)]);
      await until(async () => (await held()) > STORM / 4, 'pods are starting', 120_000, 200);
      await cluster.api.restart();
      const pods = await cluster.waitForPodsReady({ selector: 'app=storm', count: STORM, deadlineMs: 400_000 });
      expect(new Set(ipsOf(pods)).size).toBe(2 * STORM);
      await expectHeld(2 * STORM);
      await cluster.kubectl('delete', 'deployment', 'storm', '--wait=false');
      await expectHeld(0);
    }, 600_000);
  });
}
