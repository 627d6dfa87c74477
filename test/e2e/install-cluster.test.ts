// Each method of installation into an empty cluster by its one command, and its removal. `make soak` runs all methods.
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inExtent, partOf } from '../runs.ts';
import type { Cluster } from '../support/cluster.ts';
import { program } from '../support/components.ts';
import { mustRunCtl, startEmptyCluster } from '../support/install-scenes.ts';
import { type Json, until } from '../support/node.ts';
import { type SecureEtcd, startSecureEtcd } from '../support/secure-etcd.ts';

const IN_ETCD = ['--method', 'manifest', '--datastore', 'kvv3'];
const FAN_OUT = resolve(import.meta.dirname, '../../examples/installation-fan-out.yaml');
const METHODS: Readonly<Record<string, Method>> = {
  'manifest with the fan-out': { argv: ['--method', 'manifest', '--spec', FAN_OUT] },
  manifest: { argv: ['--method', 'manifest'] },
  operator: { argv: ['--method', 'operator'] },
  'chart of helm 4': { argv: ['--method', 'chart'], env: () => ({ HELM: program('helm') }) },
  'chart of helm 3': { argv: ['--method', 'chart'], env: () => ({ HELM: program('helm-3') }) },
  'manifest in etcd': { argv: IN_ETCD, env: ({ etcdUrl }) => ({ KV_ENDPOINTS: etcdUrl }) },
  'manifest in etcd with certificates': { argv: IN_ETCD, env: ({ secureEtcd }) => secureEtcd.variables },
};
const TRIED = partOf(inExtent({ everyday: ['manifest with the fan-out'], soak: Object.keys(METHODS) }));
const PORT = 8080;

/** A pod on each node that answers with its name, and a Service in front of them. */
const WEB = [
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web' },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: 'web' } },
      template: {
        metadata: { labels: { app: 'web' } },
        spec: {
          // With 0, a pod is gone before its node has removed it.
          terminationGracePeriodSeconds: 1,
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: 'kubernetes.io/hostname',
              whenUnsatisfiable: 'DoNotSchedule',
              labelSelector: { matchLabels: { app: 'web' } },
            },
          ],
          containers: [
            {
              name: 'main',
              image: 'busybox:1.35',
              command: ['sh', '-c', `hostname > /tmp/index.html; exec httpd -f -p ${String(PORT)} -h /tmp`],
            },
          ],
        },
      },
    },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web' },
    spec: { selector: { app: 'web' }, ports: [{ port: PORT }] },
  },
];

/** A pod for which other plugins of the chain have state on its node, and which still runs when netplug is purged. */
const LEFT = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'left', annotations: { 'kubernetes.io/egress-bandwidth': '10M' } },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: 'main',
        image: 'busybox:1.35',
        command: ['sleep', '100000'],
        ports: [{ containerPort: PORT, hostPort: 8081 }],
      },
    ],
  },
};

/** A method of installation: arguments, and what the environment adds. */
interface Method {
  readonly argv: readonly string[];
  readonly env?: (at: Datastores) => Readonly<Record<string, string>>;
}

interface Datastores {
  readonly etcdUrl: string;
  readonly secureEtcd: SecureEtcd;
}

describe('installation in an empty cluster', () => {
  let cluster: Cluster;
  let secureEtcd: SecureEtcd;
  let environment: Readonly<Record<string, string>> = {};

  const must = async (...argv: string[]): Promise<string> => mustRunCtl(cluster, argv, { env: environment });
  /** What netplug may leave on a node. */
  const traces = async (index: number): Promise<string> => {
    const commands = [
      // /var/lib/cni belongs to the runtime, and is empty without pods.
      'ls -A -I cni /opt/cni/bin /etc/cni/net.d /var/lib /var/log',
      // The runtime keeps that of the loopback of a pod that it could not end.
      'find /var/lib/cni -type f ! -name "cni-loopback-*"',
      'ls -d /run/netplug*',
      'ip -o link | cut -d: -f2',
      'nft list tables | grep -i netplug',
      'ip rule; ip -6 rule',
      'ip route show table all | grep -v "table local"',
      'ip -6 route show table all | grep -v "table local"',
      'sysctl -a | grep -E "^net.ipv[46].(conf|neigh)" | grep -E "forwarding|rp_filter|proxy|accept_ra|arp_"',
      // Node renames its main thread, and so its command.
      'readlink /proc/[0-9]*/exe | grep -E "/(netplug|bird)[^/]*$"',
    ];
    const { stdout } = await cluster.node(index).machine.run(['sh', '-c', `exec 2>/dev/null; ${commands.join('; ')}`]);
    return stdout;
  };
  /** What portmap and bandwidth have made on a node, line by line. */
  const chained = async (index: number): Promise<readonly string[]> => {
    const command =
      'exec 2>/dev/null; ip -o link | grep bwp; (iptables-save -t nat; nft list ruleset) | grep -E "CNI-DN|dport 8081"';
    const { stdout } = await cluster.node(index).machine.run(['sh', '-c', command]);
    return stdout.split('\n').filter((line) => line !== '');
  };
  const own = async (): Promise<readonly string[]> => {
    const kinds =
      'namespaces,crds,clusterroles,clusterrolebindings,priorityclasses,configmaps,secrets,validatingadmissionpolicies,validatingadmissionpolicybindings,flowschemas,prioritylevelconfigurations';
    const { items } = await cluster.get(kinds, '--all-namespaces');
    return items
      .filter(({ metadata }: Json) => /netplug/.test(metadata.name))
      .map(({ kind, metadata }: Json) => `${kind} ${metadata.name}`);
  };
  /** Every pod of the Deployment asks the other one, and the Service until both have answered. */
  const expectConnected = async (): Promise<void> => {
    const [one, other] = await cluster.waitForPodsReady({ selector: 'app=web', count: 2 });
    expect(one.spec.nodeName).not.toBe(other.spec.nodeName);
    const names = [one.metadata.name, other.metadata.name];
    const { spec } = await cluster.get('service/web');
    for (const [asking, asked] of [
      [one, other],
      [other, one],
    ]) {
      const ask = async (address: string): Promise<string> => {
        const url = `http://${address}:${String(PORT)}/`;
        const answer = cluster.kubectl('exec', asking.metadata.name, '--', 'wget', '-q', '-T', '3', '-O', '-', url);
        return (await answer).trim();
      };
      expect(await ask(asked.status.podIP)).toBe(asked.metadata.name);
      const answered = new Set<string>();
      await until(
        async () => answered.add(await ask(spec.clusterIP).catch(String)).isSupersetOf(new Set(names)),
        () => `the Service leads to both pods; answers: ${[...answered].join(', ')}`,
      );
    }
  };

  /** Every node is served. */
  const expectFannedOut = async (): Promise<void> =>
    expect(await must('typha', 'status')).toMatch(/^2 agents of 2 nodes$/m);

  /** Lets helm run the test of the chart. */
  const expectChartTest = async (helm: string): Promise<void> => {
    const test = [helm, 'test', 'netplug', '--namespace', 'netplug-system'];
    const env = { KUBECONFIG: cluster.api.kubeconfig, HOME: cluster.api.dir };
    const { status, stdout, stderr } = await cluster.control.run(test, { env });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/TEST SUITE: +netplug-test\n[^]*Phase: +Succeeded/);
  };

  beforeAll(async () => {
    cluster = await startEmptyCluster();
    secureEtcd = await startSecureEtcd(cluster);
  }, 300_000);
  afterAll(async () => {
    secureEtcd?.[Symbol.dispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  it.each(TRIED)(
    'works by the method %s, keeps running pods connected when removed, and leaves no trace when purged',
    async (name) => {
      const { argv, env } = METHODS[name]!;
      environment = env?.({ etcdUrl: cluster.etcdUrl, secureEtcd }) ?? {};
      const before = [await traces(0), await traces(1)];
      const started = performance.now();
      const said = await must('install', 'cluster', ...argv, '--yes');
      expect(said).toContain('network proved: 2 nodes');
      await cluster.apply([...WEB, LEFT]);
      await expectConnected();
      // How long it takes depends on what else the machine does.
      const seconds = Math.round((performance.now() - started) / 1000);
      process.stdout.write(`installed by ${name}, and pods connected: ${String(seconds)} s\n`);
      await cluster.waitForNodesReady();
      if (argv.includes(FAN_OUT)) await expectFannedOut();
      if (argv.includes('chart')) await expectChartTest(environment['HELM']!);
      expect(await must('install', 'status')).toContain('netplug-node: ready');

      await must('uninstall', 'cluster', '--yes');
      expect(await cluster.kubectl('get', 'pods', '--namespace=netplug-system', '--output=name')).toBe('');
      await expectConnected();
      // The plugin is still there to remove them.
      await cluster.kubectl('delete', 'deployment/web', 'service/web', '--cascade=foreground', '--wait');
      await until(
        async () => (await cluster.get('pods', '--selector=app=web')).items.length === 0,
        'the pods are gone',
      );
      const made = [...(await chained(0)), ...(await chained(1))].join('\n');
      expect(made).toContain('bwp');
      expect(made).toContain('8081');

      await must('uninstall', 'cluster', '--purge', '--yes', '--cluster', 'netplug', '--timeout', '120');
      expect([...(await chained(0)), ...(await chained(1))]).toEqual([]);
      // Without a network configuration the runtime ends no sandbox.
      await cluster.kubectl('delete', 'pod', 'left', '--force', '--grace-period=0');
      expect([await traces(0), await traces(1)]).toEqual(before);
      expect(await own()).toEqual([]);
    },
    600_000,
  );
});
