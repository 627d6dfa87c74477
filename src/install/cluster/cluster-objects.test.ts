import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lintNetconf } from '../../config/lint-conflist.ts';
import { NODE_NAME_PLACEHOLDER } from '../places.ts';
import type { InstallationSpec } from '../../model/installation.ts';
import { chooseDefaultPool } from './choose-default-pool.ts';
import { clusterObjects } from './cluster-objects.ts';
import { cleanupDaemonSet } from './cleanup-daemon-set.ts';
import { nodeCheckPod } from './probe-objects.ts';
import { conflistOf } from './conflist-of.ts';
import type { Manifest } from '../../model/manifest.ts';
import { runtimeFolderFault } from '../../model/runtime-folder.ts';
import { operatorObjects } from './operator-deployment.ts';
import type { EnvVar } from './pod-template.ts';
import { type Circumstances, settingsOf } from './settings-of.ts';
import { type ClusterSettings, VARIANTS } from './settings.ts';

const ORCH: Circumstances = {
  release: 'v3.27.0',
  variant: 'policy-and-networking',
  datastore: { type: 'orch' },
  defaultPools: [{ cidr: '192.168.0.0/16' }],
  nodes: 3,
};
const KV: Circumstances = {
  ...ORCH,
  datastore: { type: 'kvv3', endpoints: 'https://a:2379,https://b:2379', tls: 'secret' },
};

const settings = (spec: InstallationSpec = {}, circumstances: Partial<Circumstances> = {}): ClusterSettings =>
  settingsOf(spec, { ...ORCH, ...circumstances });
const objects = (of: ClusterSettings): readonly Manifest[] => clusterObjects(of).flatMap((stage) => stage.objects);
const nameOf = ({ kind, metadata }: Manifest): string => `${String(kind)}/${(metadata as { name: string }).name}`;
const podSpecOf = (workload: Manifest): Readonly<Record<'containers' | 'initContainers', Manifest[]>> =>
  (workload as { spec: { template: { spec: Record<'containers' | 'initContainers', Manifest[]> } } }).spec.template
    .spec;
const find = (of: ClusterSettings, name: string): Manifest | undefined =>
  objects(of).find((object) => nameOf(object) === name);

describe('the objects of an installation', () => {
  it('run agents on every node and two controllers, with one pool, without a spec', () => {
    const names = objects(settings()).map(nameOf);
    expect(names).toEqual(
      expect.arrayContaining([
        'Namespace/netplug-system',
        'ConfigMap/netplug-config',
        'IPPool/default-ipv4',
        'Deployment/netplug-orch-controllers',
        'DaemonSet/netplug-node',
      ]),
    );
    expect(names).not.toContain('DaemonSet/netplug-bird');
    expect(new Set(names).size).toBe(names.length);
  });

  it('tell agents in the ConfigMap alone that an Installation exists, so that none restarts when one adopts a manifest', () => {
    const [plain, operated] = [settings(), { ...settings(), isOperated: true }].map(objects);
    expect(operated!.filter((object, index) => !isDeepStrictEqual(object, plain![index])).map(nameOf)).toEqual([
      'ConfigMap/netplug-config',
    ]);
    expect(find({ ...settings(), isOperated: true }, 'ConfigMap/netplug-config')?.['data']).toMatchObject({
      installation: 'default',
    });
  });

  it('name the folders of the Installation and no others', () => {
    const own = { binDir: '/var/lib/rancher/k3s/data/cni', confDir: '/var/lib/rancher/k3s/agent/etc/cni/net.d' };
    const of = settings({ cni: own });
    const check = nodeCheckPod(
      { release: 'v3.27.0', image: 'i', pullSecrets: [], node: 'node-a' },
      { keepsPlugin: false, hasAgent: false, hasFanOut: false, ...own },
    );
    expect(check).toMatchObject({
      spec: { hostNetwork: true, hostPID: true, containers: [{ command: expect.arrayContaining(['--message-file']) }] },
    });
    const made = [...objects(of), cleanupDaemonSet(of), check];
    const text = JSON.stringify(made.filter(({ kind }) => kind !== 'CustomResourceDefinition'));
    expect(text).toContain(`"path":"${own.binDir}"`);
    expect(text).toContain(`{"name":"NETPLUG_CNI_BIN_DIR","value":"${own.binDir}"}`);
    expect(text).toContain(`{"name":"NETPLUG_CNI_CONF_DIR","value":"${own.confDir}"}`);
    expect(text).toContain(`"--purge","--force","--bin-dir","${own.binDir}","--conf-dir","${own.confDir}"`);
    expect(text).not.toMatch(/\/opt\/cni\/bin|[" ]\/etc\/cni\/net\.d/);
    expect(/NETPLUG_CNI_(CONF|BIN)_DIR/.test(JSON.stringify(objects(settings())))).toBe(false);
  });

  it('mount nothing over which a folder of the runtime may lie', () => {
    const spec: InstallationSpec = { calicoNetwork: { bgp: 'Enabled' }, typha: { mode: 'Enabled' } };
    const paths = [settings(spec), settings(spec, KV)]
      .flatMap((of) => podSpecOf(find(of, 'DaemonSet/netplug-node')!).containers)
      .flatMap(({ volumeMounts }) => volumeMounts as { name: string; mountPath: string }[])
      .filter(({ name }) => !['cni-bin', 'cni-conf'].includes(name))
      .map(({ mountPath }) => mountPath);
    expect(paths.length).toBeGreaterThan(12);
    expect(paths.filter((path) => runtimeFolderFault(path) === undefined)).toEqual([]);
  });

  it('chain the further plugins of the Installation behind those of netplug', () => {
    const tuning = { type: 'tuning', sysctl: { 'net.core.somaxconn': '512' } };
    const conflist = conflistOf(settings({ cni: { chainedPlugins: [tuning] } }));
    expect(conflist).toMatchObject({
      plugins: [{ type: 'netplug' }, { type: 'portmap' }, { type: 'bandwidth' }, tuning],
    });
  });

  it('have selectors that no later release may change', () => {
    const selectors = objects(settings({ calicoNetwork: { bgp: 'Enabled' }, typha: { mode: 'Enabled' } })).flatMap(
      (object) => {
        const { selector } = (object['spec'] ?? {}) as { selector?: unknown };
        return selector === undefined || object['kind'] === 'CustomResourceDefinition'
          ? []
          : [[nameOf(object), selector]];
      },
    );
    expect(Object.fromEntries(selectors)).toEqual({
      'Deployment/netplug-orch-controllers': { matchLabels: { 'app.kubernetes.io/name': 'netplug-orch-controllers' } },
      'PodDisruptionBudget/netplug-typha': { matchLabels: { 'app.kubernetes.io/name': 'netplug-typha' } },
      'Deployment/netplug-typha': { matchLabels: { 'app.kubernetes.io/name': 'netplug-typha' } },
      'DaemonSet/netplug-bird': { matchLabels: { 'app.kubernetes.io/name': 'netplug-bird' } },
      'DaemonSet/netplug-node': { matchLabels: { 'app.kubernetes.io/name': 'netplug-node' } },
    });
  });

  it('declare no ports, which would keep a second agent of the node from starting', () => {
    expect(JSON.stringify(objects(settings()).filter(({ kind }) => kind !== 'CustomResourceDefinition'))).not.toContain(
      '"ports"',
    );
  });

  it('leave definitions, pools and rights of the API datastore out on etcd', () => {
    const names = objects(settings({}, KV)).map(nameOf);
    expect(names.filter((name) => /CustomResource|IPPool|-datastore/.test(name))).toEqual([]);
    const agent = JSON.stringify(find(settings({}, KV), 'DaemonSet/netplug-node'));
    expect(agent).toContain('https://a:2379,https://b:2379');
    expect(agent).toContain('netplug-kv-certificates');
  });

  it.each(VARIANTS)('have a conflist that lint accepts, or none: %s', (variant) => {
    for (const circumstances of [ORCH, KV]) {
      const of = settings(
        { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }, { cidr: 'fd00::/48' }] } },
        { ...circumstances, variant },
      );
      const installed = JSON.parse(JSON.stringify(conflistOf(of)).replaceAll(NODE_NAME_PLACEHOLDER, 'node-1'));
      expect(lintNetconf(installed)).toEqual([]);
      const { data } = find(of, 'ConfigMap/netplug-config') as { data: Record<string, string> };
      expect(data['conflist'] !== undefined).toBe(variant !== 'policy-only');
    }
  });

  it('have a conflist that allows the annotations floatingIPs and ipAddrsNoIpam exactly when they are switched on', () => {
    const features = (calicoNetwork: InstallationSpec['calicoNetwork']): unknown => {
      const { plugins } = conflistOf(settings({ calicoNetwork })) as { plugins: readonly Record<string, unknown>[] };
      return plugins[0]?.['feature_control'];
    };
    expect(features({})).toBeUndefined();
    expect(features({ floatingIPs: 'Disabled', ipAddrsNoIpam: 'Disabled' })).toBeUndefined();
    expect(features({ floatingIPs: 'Enabled' })).toEqual({ floating_ips: true });
    expect(features({ ipAddrsNoIpam: 'Enabled' })).toEqual({ ip_addrs_no_ipam: true });
    const all = { floatingIPs: 'Enabled', ipAddrsNoIpam: 'Enabled' } as const;
    expect(features(all)).toEqual({ ip_addrs_no_ipam: true, floating_ips: true });
    const installed = JSON.stringify(conflistOf(settings({ calicoNetwork: all })));
    expect(lintNetconf(JSON.parse(installed.replaceAll(NODE_NAME_PLACEHOLDER, 'node-1')))).toEqual([]);
  });

  it('set USE_POD_CIDR of agents and fan-out exactly with host-local [auth-podcidr]', () => {
    const has = (of: ClusterSettings, name: string): boolean =>
      JSON.stringify(find(of, name)).includes('{"name":"USE_POD_CIDR","value":"true"}');
    for (const [spec, circumstances, expected] of [
      [{ cni: { ipam: { type: 'HostLocal' } } }, {}, true],
      [{}, { variant: 'second-plugin' }, true],
      [{}, {}, false],
    ] as const) {
      const of = settings({ ...spec, typha: { mode: 'Enabled' } }, circumstances);
      for (const name of ['DaemonSet/netplug-node', 'Deployment/netplug-typha'])
        expect({ name, has: has(of, name) }).toEqual({ name, has: expected });
      expect(has(settings(spec, circumstances), 'DaemonSet/netplug-node')).toBe(expected);
    }
  });

  it('have nothing of the fan-out unless it is on, and never with etcd', () => {
    const off = [settings(), settings({ typha: { mode: 'Disabled', replicas: 5 } })];
    const kv = [settings({ typha: { mode: 'Enabled' } }, KV), settings({}, KV)];
    for (const [one, other] of [off, kv] as const) {
      expect(objects(one!)).toEqual(objects(other!));
      const names = objects(one!).map(nameOf);
      expect(names.filter((name) => /netplug-(typha|agent-(fanned-out|servers))$/.test(name))).toEqual([]);
      expect(JSON.stringify(find(one!, 'DaemonSet/netplug-node'))).not.toContain('typha');
    }
  });

  it('start servers before agents that use them, with a port of the node, and replace them beside the old ones', () => {
    const of = settings({ typha: { mode: 'Enabled', tolerations: [], labels: { team: 'net' } } }, { typhaReplicas: 4 });
    const stages = clusterObjects(of).map(({ stage }) => stage);
    expect(stages.indexOf('typha')).toBe(stages.indexOf('nodes') - 1);
    expect(find(of, 'Deployment/netplug-typha')).toMatchObject({
      spec: {
        replicas: 4,
        strategy: { rollingUpdate: { maxSurge: '100%', maxUnavailable: 1 } },
        template: {
          metadata: {
            labels: { team: 'net' },
            annotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' },
          },
          spec: {
            hostNetwork: true,
            priorityClassName: 'system-cluster-critical',
            serviceAccountName: 'netplug-typha',
            terminationGracePeriodSeconds: 60,
            tolerations: [],
            containers: [
              {
                ports: [{ containerPort: 5473, hostPort: 5473 }],
                livenessProbe: { httpGet: { path: '/healthz', port: 9093, host: '127.0.0.1' } },
              },
            ],
          },
        },
      },
    });
    expect(find(of, 'PodDisruptionBudget/netplug-typha')).toMatchObject({ spec: { maxUnavailable: 1 } });
    const agent = JSON.stringify(find(of, 'DaemonSet/netplug-node'));
    expect(agent).toContain('{"name":"NETPLUG_TYPHA","value":"on"}');
    expect(agent).toContain('{"path":"token","audience":"netplug-typha","expirationSeconds":3600}');
  });

  it('give agents with the fan-out their own objects and the Leases of the servers, in place of what every node follows', () => {
    const names = objects(settings({ typha: { mode: 'Enabled' } })).map(nameOf);
    const bindings = names.filter((name) => /RoleBinding\/netplug-(agent|typha)/.test(name));
    expect(bindings).toEqual([
      'ClusterRoleBinding/netplug-agent',
      'ClusterRoleBinding/netplug-agent-fanned-out',
      'RoleBinding/netplug-agent-servers',
      'RoleBinding/netplug-agent-passwords',
      'RoleBinding/netplug-agent-tokens',
      'ClusterRoleBinding/netplug-typha',
      'RoleBinding/netplug-typha-leases',
    ]);
  });

  it.each([
    ['policy-and-networking', 'on'],
    ['second-plugin', 'policy'],
    ['policy-only', 'policy'],
  ] as const)('leave to the agent of the variant %s what NETPLUG_NETWORKING=%s means', (variant, expected) => {
    const agent = JSON.stringify(find(settings({}, { variant }), 'DaemonSet/netplug-node'));
    expect(agent).toContain(`{"name":"NETPLUG_NETWORKING","value":"${expected}"}`);
  });

  it('take two variables from the ConfigMap with the address of the API server, and no other key of it', () => {
    const release = 'v3.27.0';
    const images = { node: '', tools: '', pullSecrets: [] };
    const all = [
      ...objects(settings({ calicoNetwork: { bgp: 'Enabled' }, typha: { mode: 'Enabled' } })),
      ...operatorObjects({ release, images, replicas: 1, override: {} }),
      cleanupDaemonSet(settings()),
    ].filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment');
    expect(all).toHaveLength(6);
    for (const workload of all) {
      const { containers, initContainers } = podSpecOf(workload);
      for (const { envFrom, env } of [...containers, ...(initContainers ?? [])]) {
        expect(envFrom).toBeUndefined();
        const taken = (env as EnvVar[]).filter(({ valueFrom = {} }) => 'configMapKeyRef' in valueFrom);
        expect(taken.map(({ name, valueFrom }) => [name, valueFrom?.['configMapKeyRef']])).toEqual(
          ['KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT'].map((key) => [
            key,
            { name: 'kubernetes-services-endpoint', key, optional: true },
          ]),
        );
      }
    }
  });

  it('let environment variables of the user replace those of netplug', () => {
    const agent = find(settings({ node: { env: { NETPLUG_NETWORKING: 'off', A: 'b' } } }), 'DaemonSet/netplug-node');
    const { env } = (
      agent as { spec: { template: { spec: { containers: { env: { name: string; value: string }[] }[] } } } }
    ).spec.template.spec.containers[0]!;
    expect(env.filter(({ name }) => name === 'NETPLUG_NETWORKING')).toEqual([
      { name: 'NETPLUG_NETWORKING', value: 'off' },
    ]);
    expect(new Set(env.map(({ name }) => name)).size).toBe(env.length);
  });
});

describe('settings of an installation', () => {
  it('run BIRD only when a pool has no encapsulation, or when it is asked for', () => {
    const pool = (encapsulation: 'None' | 'VXLAN') => ({ ipPools: [{ cidr: '10.1.0.0/16', encapsulation }] });
    expect(settings({ calicoNetwork: pool('None') }).spec.calicoNetwork.bgp).toBe('Enabled');
    expect(settings({ calicoNetwork: pool('VXLAN') }).spec.calicoNetwork.bgp).toBe('Disabled');
    expect(settings({ calicoNetwork: { ...pool('VXLAN'), bgp: 'Enabled' } }).spec.calicoNetwork.bgp).toBe('Enabled');
  });

  it('take address families from the pools, with host-local from pod CIDRs [inst-host-local]', () => {
    const ipPools = [{ cidr: '10.1.0.0/16' }, { cidr: 'fd00::/48' }];
    const of = settings({ cni: { ipam: { type: 'HostLocal' } }, calicoNetwork: { ipPools } });
    expect(of.families).toEqual([4, 6]);
    expect(of.pools).toEqual([]);
    expect(conflistOf(of)).toMatchObject({
      plugins: [
        { ipam: { type: 'host-local', ranges: [[{ subnet: 'usePodCidr' }], [{ subnet: 'usePodCidrIPv6' }]] } },
        {},
        {},
      ],
    });
  });

  it('have one replica of the controllers on a single node, because each needs the ports of a node', () => {
    expect(settings({}, { nodes: 1 }).spec.controlPlaneReplicas).toBe(1);
    expect(settings({}, { nodes: 0 }).spec.controlPlaneReplicas).toBe(1);
  });
});

describe('the default pool', () => {
  it('overlaps nothing that is taken', () => {
    expect(chooseDefaultPool([])).toEqual({ cidr: '192.168.0.0/16' });
    expect(chooseDefaultPool(['192.168.7.0/24', '10.0.0.0/8'])).toEqual({ cidr: '172.30.0.0/16' });
    expect(chooseDefaultPool(['0.0.0.0/0'])).toBeUndefined();
  });

  it('is none of the networks of nodes that are written with host bits', () => {
    fc.assert(
      fc.property(fc.nat(255), fc.nat(255), (third, fourth) => {
        expect(chooseDefaultPool([`192.168.${String(third)}.${String(fourth)}/24`])).toEqual({ cidr: '10.244.0.0/16' });
      }),
    );
  });
});
