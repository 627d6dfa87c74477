import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { OrchSettings } from '../../src/config/connection.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { accessOf } from '../../src/bin/open-orch.ts';
import { openStoreIn } from '../../src/bin/open-store.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { crdManifests } from '../../src/install/cluster/definitions/crd-manifests.ts';
import { inExtent, runsHere } from '../runs.ts';
import { program, type ProgramName } from '../support/components.ts';
import { callCtl, type CtlWorld, type Ran } from '../support/ctl.ts';
import { startEtcd } from '../support/etcd.ts';
import { freePort } from '../support/free-port.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import type { Json } from '../support/node.ts';
import {
  type KubeletBehaviour,
  type SimulatedKubelets,
  startSimulatedKubelets,
} from '../support/simulated-kubelets.ts';
import { makeTlsFolder } from '../support/tls.ts';
import { webhook } from '../support/upgrade-hazards.ts';

/** The older one in `make soak`. */
const HELMS: readonly ProgramName[] = inExtent({ everyday: ['helm'], soak: ['helm', 'helm-3'] });

const RARE = runsHere('contract/install-cluster: rarer ways');

/** What is said before the wait, and after it. */
const NO_STATUS = /installation: no status yet/;

describe('netplugctl install cluster on an API server', () => {
  let server: ApiServer;
  let limited: string;

  const ctl = async (
    argv: string,
    more: Readonly<Record<string, string>> = {},
    {
      kubeconfig = server.kubeconfig,
      ...user
    }: { readonly kubeconfig?: string | undefined } & Pick<CtlWorld, 'isTty' | 'stdin' | 'until'> = {},
  ): Promise<Ran> => {
    const env = { KUBECONFIG: kubeconfig, HELM: program('helm'), HOME: server.dir, ...more };
    const openApi = (settings: OrchSettings): OrchApi =>
      new OrchApi(accessOf(settings, env), { env, manager: 'netplugctl' });
    return callCtl(argv.split(' '), { env, clock: systemClock, openApi, openStore: openStoreIn(env), ...user });
  };
  const addNode = async (name: string, address: string): Promise<void> => {
    await server.apply([
      {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name, labels: { 'kubernetes.io/os': 'linux' } },
        spec: { podCIDRs: [] },
      },
    ]);
    const status = {
      addresses: [{ type: 'InternalIP', address }],
      conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }],
      nodeInfo: {
        kernelVersion: '6.1.0',
        operatingSystem: 'linux',
        architecture: 'amd64',
        machineID: '',
        systemUUID: '',
        bootID: '',
        osImage: '',
        containerRuntimeVersion: '',
        kubeletVersion: 'v1.37.2',
        kubeProxyVersion: '',
      },
    };
    await server.patch(['node', name], { status }, 'status');
  };
  const kubelets = async (behaviour: KubeletBehaviour = {}): Promise<SimulatedKubelets> =>
    startSimulatedKubelets(server, { workloads: 'simulated', ...behaviour });
  const purge = async (more: Readonly<Record<string, string>> = {}): Promise<void> => {
    await using _ = await kubelets();
    const removal = ctl('uninstall cluster --purge --yes --cluster netplug --timeout 90', more);
    await finalize(removal);
    expect(await removal).toMatchObject({ status: 0 });
  };
  /** The namespace controller, which does not run here, would finish the deletion. */
  const finalize = async (over: Promise<unknown>): Promise<void> => {
    const state = { isOver: false };
    void over.then(() => (state.isOver = true));
    while (!state.isOver) {
      const namespace = await server.get('namespace', 'netplug-system').catch(() => undefined);
      if (namespace?.metadata?.deletionTimestamp !== undefined) {
        const body = { ...namespace, spec: { finalizers: [] } };
        await server.ask('PUT', '/api/v1/namespaces/netplug-system/finalize', { body });
      }
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  };
  const namesOf = async (kinds: string): Promise<readonly string[]> => {
    const { items } = await server.get(kinds, '--all-namespaces');
    return items
      .map(({ kind, metadata }: Json) => `${kind}/${metadata.name}`)
      .filter((name: string) => name.includes('netplug'));
  };

  beforeAll(async () => {
    server = await startApiServer({ users: [{ name: 'limited' }] });
    limited = await server.kubeconfigFor(server.userToken('limited'));
    await addNode('node-a', '172.20.0.11');
    await addNode('node-b', '172.20.0.12');
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });

  it('shows the plan and changes nothing with --dry-run', async () => {
    for (const method of ['manifest', 'operator', 'chart']) {
      const { status, out, err } = await ctl(`install cluster --method ${method} --dry-run`);
      expect({ status, err }).toEqual({ status: 0, err: expect.anything() });
      expect(out).toMatch(/^cluster: .*\n1\. Namespace\n {3}create Namespace netplug-system\n2\. Check of the nodes\n/);
      expect(out).toContain('create CustomResourceDefinition ippools.netplug.io');
      expect(out).toContain('Proof of the network');
      expect(err).toContain('pool 192.168.0.0/16');
    }
    expect(await namesOf('namespaces,customresourcedefinitions,clusterroles')).toEqual([]);
  });

  it('installs by manifest, is repeated without a change, and is removed without a trace', async () => {
    await using running = await kubelets();
    const first = await ctl('install cluster --method manifest --yes');
    expect({ status: first.status, err: first.err.slice(-700) }).toEqual({ status: 0, err: expect.anything() });
    expect(first.out).toContain('netplug v3.27.0 is installed on 2 nodes');
    expect(first.err).toMatch(
      /network proved: 2 nodes, 10 connections, packets of full size, Service 10\.96\.[\d.]+, policy\n/,
    );
    expect([...running.pods].sort()).toEqual([
      'netplug-node-check-node-a',
      'netplug-node-check-node-b',
      'netplug-probe-client-node-a',
      'netplug-probe-client-node-b',
      'netplug-probe-server-node-a',
      'netplug-probe-server-node-b',
    ]);
    expect(await namesOf('pods,services,networkpolicies')).toEqual([]);
    expect(await namesOf('daemonsets,deployments,ippools')).toEqual([
      'DaemonSet/netplug-node',
      'Deployment/netplug-orch-controllers',
    ]);
    expect((await server.get('ippools')).items).toHaveLength(1);
    const policies = 'validatingadmissionpolicies,validatingadmissionpolicybindings';
    expect(await namesOf(policies)).toHaveLength(18);

    const again = await ctl('install cluster --method manifest --dry-run');
    expect(again.out).not.toMatch(/create|change/);
    const status = await ctl('install status');
    expect(status).toMatchObject({ status: 0, out: expect.stringContaining('netplug-node: ready') });
    const other = await ctl('install cluster --method chart --dry-run');
    expect(other).toMatchObject({ status: 69 });
    expect(other.err).toContain('netplug was installed by manifest');

    const kept = await ctl('uninstall cluster --yes');
    expect(kept).toMatchObject({ status: 0, out: expect.stringContaining('the programs of netplug are removed') });
    expect(await namesOf('daemonsets,deployments')).toEqual([]);
    expect(await namesOf('serviceaccounts')).toEqual(['ServiceAccount/netplug-cni']);
    expect(await namesOf(policies)).toHaveLength(18);
    await purge();
    const kinds = `namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,nodes,${policies}`;
    expect(await namesOf(kinds)).toEqual([]);
    expect((await ctl('uninstall cluster --purge --dry-run')).out).not.toContain('delete');
  });

  it('names the cluster in plan and question, and purges only one that is named by its context or its id', async () => {
    const { metadata } = await server.get('namespace', 'kube-system');
    const cluster = `context "netplug", server ${server.url}, id ${String(metadata.uid)}, 2 nodes`;
    const plan = await ctl('install cluster --method manifest --dry-run');
    expect(plan.out).toContain(`cluster: ${cluster}\n`);
    const removal = await ctl('uninstall cluster --dry-run');
    expect(removal.out).toContain(`cluster: ${cluster}\n`);
    // A namespace is enough to have something to remove.
    await server.kubectl('create', 'namespace', 'netplug-system');
    const containers = [{ name: 'main', image: 'none' }];
    for (const hostNetwork of [false, true]) {
      const metadata = { name: hostNetwork ? 'of-node' : 'of-network', namespace: 'default' };
      await server.apply([{ apiVersion: 'v1', kind: 'Pod', metadata, spec: { hostNetwork, containers } }]);
      await server.patch(['pod', metadata.name], { status: { phase: 'Running' } }, 'status');
    }
    const named = await ctl('uninstall cluster --purge --dry-run');
    expect(named.err).toContain('1 running pod will lose network and host ports: default/of-network\n');
    await server.kubectl('delete', 'pod', 'of-network', 'of-node', '--grace-period=0', '--force');
    const unnamed = await ctl('uninstall cluster --purge --yes');
    expect(unnamed).toMatchObject({ status: 64, err: expect.stringContaining('Add --yes and --cluster') });
    for (const command of ['uninstall cluster --purge --yes', 'uninstall cluster --dry-run']) {
      const other = await ctl(`${command} --cluster prod-eu`);
      expect(other).toMatchObject({ status: 64, out: '' });
      expect(other.err).toContain(
        `--cluster names "prod-eu", and it has the context "netplug" and the id ${String(metadata.uid)}`,
      );
    }
    expect(await namesOf('namespaces')).toEqual(['Namespace/netplug-system']);
    const asked = await ctl('uninstall cluster --purge', {}, { isTty: true, stdin: 'no' });
    expect(asked).toMatchObject({ status: 1 });
    expect(asked.err).toContain(`Remove everything of netplug from the cluster with ${cluster}? Type "yes"`);
    await using _ = await kubelets();
    const byId = ctl(`uninstall cluster --purge --yes --timeout 90 --cluster ${String(metadata.uid)}`);
    await finalize(byId);
    expect(await byId).toMatchObject({ status: 0 });
    expect(await namesOf('namespaces')).toEqual([]);
  });

  it.runIf(RARE)(
    'purges its own notes from Nodes and pods, and leaves those of users and the finalizers of others',
    async () => {
      await using _ = await kubelets();
      expect(await ctl('install cluster --method manifest --yes')).toMatchObject({ status: 0 });
      const patch = async (which: readonly string[], change: object, ...more: string[]): Promise<unknown> =>
        server.kubectl('patch', ...which, '--type=strategic', `--patch=${JSON.stringify(change)}`, ...more);
      const users = {
        'netplug/ASNumber': '64512',
        'netplug/RouteReflectorClusterID': '1.0.0.1',
        'netplug.io/foreign': 'keep-me',
        'example.org/netplug': 'keep-me',
      };
      const condition = (reason: string, type = 'NetworkUnavailable', status = 'False'): object => ({
        status: { conditions: [{ type, status, reason }] },
      });
      const ready = condition('NetplugServes', 'netplug.io/NetworkReady', 'True');
      const notes = { 'netplug/IPv4Address': '172.20.0.11/24', 'netplug/Version': 'v3.27.0' };
      await patch(['node', 'node-a'], { metadata: { annotations: { ...users, ...notes } } });
      await patch(['node', 'node-a'], condition('NetplugIsUp'), '--subresource=status');
      await patch(['node', 'node-b'], condition('FlannelIsUp'), '--subresource=status');
      for (const node of ['node-a', 'node-b']) await patch(['node', node], ready, '--subresource=status');
      const asked = { 'cni.netplug/ipAddrs': '["10.0.0.1"]' };
      const podNotes = {
        'cni.netplug/podIPs': '10.0.0.1/32',
        'cni.netplug/containerID': 'c',
        'cni.netplug/endpoint.eth0': '{}',
      };
      const spec = { containers: [{ name: 'main', image: 'none' }] };
      await server.apply([
        {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name: 'web', namespace: 'default', annotations: { ...asked, ...podNotes } },
          spec,
        },
        {
          apiVersion: 'netplug.io/v3',
          kind: 'Installation',
          metadata: { name: 'default', finalizers: ['example.org/keep', 'netplug.io/operator'] },
          spec: {},
        },
      ]);
      const kept = ctl('uninstall cluster --purge --yes --cluster netplug --timeout 90');
      await finalize(kept);
      expect(await kept).toMatchObject({ status: 75, err: expect.stringContaining('default (example.org/keep)') });
      expect((await server.get('installation', 'default')).metadata.finalizers).toEqual(['example.org/keep']);
      expect(await namesOf('namespaces,clusterroles,validatingadmissionpolicies')).toEqual([]);
      const annotationsOf = async (...which: string[]): Promise<Json> => {
        const { annotations } = (await server.get(...which)).metadata;
        return Object.fromEntries(
          Object.entries(annotations).filter(([key]) => !key.startsWith('kubectl.kubernetes.io/')),
        );
      };
      expect(await annotationsOf('node', 'node-a')).toEqual(users);
      expect(await annotationsOf('pod', 'web', '--namespace=default')).toEqual(asked);
      const reasonsOf = async (node: string): Promise<string[]> =>
        (await server.get('node', node)).status.conditions.map(({ reason }: Json) => reason);
      expect(await reasonsOf('node-a')).toEqual(['KubeletReady']);
      expect((await reasonsOf('node-b')).sort()).toEqual(['FlannelIsUp', 'KubeletReady']);

      const release = JSON.stringify({ metadata: { finalizers: null } });
      await server.kubectl('patch', 'installation', 'default', '--type=merge', `--patch=${release}`);
      await purge();
      expect(await namesOf('customresourcedefinitions')).toEqual([]);
      await server.kubectl('delete', 'pod/web', '--namespace=default', '--now');
      const forget = Object.fromEntries(Object.keys(users).map((key) => [key, null]));
      await patch(['node', 'node-a'], { metadata: { annotations: forget } });
    },
  );

  /** Repeats the command without `--spec`, after edits of the installation by hand. */
  const expectKept = async (features: () => Promise<unknown>): Promise<void> => {
    const by = 'install cluster --method manifest';
    const repeated = await ctl(`${by} --dry-run`);
    expect(repeated).toMatchObject({ status: 0, out: expect.not.stringMatching(/create|change/) });
    expect(repeated.err).toContain('what the command does not set stays as it is');
    const inNamespace = '--namespace=netplug-system';
    await server.kubectl('set', 'env', 'daemonset/netplug-node', 'NETPLUG_LOG_LEVEL=DEBUG', inNamespace);
    expect((await ctl(`${by} --dry-run`)).out).not.toMatch(/create|change/);
    const edit = '{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":2}}}}';
    await server.kubectl('patch', 'daemonset', 'netplug-node', inNamespace, `--patch=${edit}`);
    const restored = await ctl(`${by} --registry registry.example/n --yes`);
    expect({ status: restored.status, err: restored.err.slice(-700) }).toEqual({ status: 0, err: expect.anything() });
    expect(restored.err).toMatch(/netplug-node: spec\.updateStrategy\..*maxUnavailable: 0 \(number\) in place of 2/);
    const { spec } = await server.get('daemonset', inNamespace, 'netplug-node');
    const [agent] = spec.template.spec.containers;
    expect(agent.image).toBe('registry.example/n/netplug-node:v3.27.0');
    expect(agent.env).toContainEqual({ name: 'NETPLUG_LOG_LEVEL', value: 'DEBUG' });
    expect(await features()).toEqual({ ip_addrs_no_ipam: true });
    expect((await server.get('ippools')).items).toHaveLength(2);
    const variant = await ctl(`${by} --variant policy-only --interface-prefix cali --yes`);
    expect(variant).toMatchObject({
      status: 69,
      err: expect.stringMatching(/installation\/variant: [^]* Use --variant policy-and-/),
    });
    const datastore = await ctl(`${by} --yes`, { KV_ENDPOINTS: 'http://10.0.0.1:2379' });
    expect(datastore).toMatchObject({
      status: 69,
      err: expect.stringMatching(/--datastore: [^]* Use --datastore orch/),
    });
  };

  it('takes every setting from the Installation of --spec, also when it is repeated with another one', async () => {
    await using _ = await kubelets();
    const written = async (calicoNetwork: object, more: object = {}): Promise<string> => {
      const installation = { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' } };
      const path = `${server.dir}/installation.json`;
      await writeFile(path, JSON.stringify({ ...installation, spec: { calicoNetwork, ...more } }));
      return path;
    };
    const features = async (): Promise<unknown> => {
      const { data } = await server.get('configmap', '--namespace=netplug-system', 'netplug-config');
      return JSON.parse(data.conflist).plugins[0].feature_control;
    };
    const by = `install cluster --method manifest --spec ${server.dir}/installation.json`;
    const pools = [
      { cidr: '10.81.0.0/16' },
      { cidr: '10.84.0.0/24', name: 'floating', encapsulation: 'None', nodeSelector: '!all()' },
    ];
    await written({ ipPools: pools, floatingIPs: 'Enabled' }, { deletionPolicy: 'Remove' });
    const first = await ctl(`${by} --yes`);
    expect({ status: first.status, err: first.err.slice(-700) }).toEqual({ status: 0, err: expect.anything() });
    expect(first.err).toContain('warning: spec.deletionPolicy: it has no effect with --method manifest');
    expect((await server.get('ippools')).items.map(({ metadata }: Json) => metadata.name)).toEqual([
      'default-ipv4',
      'floating',
    ]);
    expect(await features()).toEqual({ floating_ips: true });
    expect(await namesOf('daemonsets')).toEqual(['DaemonSet/netplug-bird', 'DaemonSet/netplug-node']);
    expect((await ctl(`${by} --dry-run`)).out).not.toMatch(/create|change/);

    await written({ bgp: 'Enabled', ipAddrsNoIpam: 'Enabled' });
    const changed = await ctl(`${by} --yes`);
    expect({ status: changed.status, err: changed.err.slice(-700) }).toEqual({ status: 0, err: expect.anything() });
    expect(changed.out).toContain('change ConfigMap netplug-system/netplug-config');
    // It lists no pools, so those that exist stay as they are.
    expect(changed.out).not.toContain('IPPool');
    expect(await ctl('install cluster --method manifest --pool 10.99.0.0/16 --yes')).toMatchObject({
      status: 69,
      out: '',
      err: expect.stringMatching(/pools\/changed: --pool 10\.99\.0\.0\/16: [^]* exists with 10\.81\.0\.0\/16/),
    });
    await expectKept(features);
    await purge();

    await written({ ipPools: [{ cidr: '10.81.0.0/16' }, { cidr: '10.96.128.0/24' }] });
    const overlapping = await ctl(`${by} --yes`);
    expect(overlapping).toMatchObject({ status: 69, out: '' });
    expect(overlapping.err).toMatch(
      /pools\/overlap: spec\.calicoNetwork\.ipPools\[1\]\.cidr: the pool overlaps .*, a range of Services/,
    );
    const unanswered = await ctl('install cluster --method manifest --spec -');
    expect(unanswered).toMatchObject({ status: 64, err: expect.stringContaining('Add --yes') });
  });

  it('keeps the settings of a manifest when the operator takes over, and the address family that --pool does not name', async () => {
    await using _ = await kubelets();
    const path = `${server.dir}/dual.json`;
    const ipPools = [{ cidr: '10.81.0.0/16' }, { cidr: 'fd00:81::/48' }];
    const override = { env: { NETPLUG_LOG_LEVEL: 'debug' }, labels: { team: 'network' } };
    const written = { registry: 'registry.example/n', calicoNetwork: { ipPools, mtu: 1400 }, node: override };
    const installation = { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' } };
    await writeFile(path, JSON.stringify({ ...installation, spec: written }));
    const first = await ctl(`install cluster --method manifest --spec ${path} --yes`);
    expect({ status: first.status, err: first.err.slice(-700) }).toEqual({ status: 0, err: expect.anything() });

    const pool = await ctl('install cluster --method manifest --pool 10.81.0.0/16 --yes');
    expect({ status: pool.status, err: pool.err.slice(-700) }).toEqual({ status: 0, err: expect.anything() });
    const { data } = await server.get('configmap', '--namespace=netplug-system', 'netplug-config');
    expect(JSON.parse(data.conflist).plugins[0].ipam).toMatchObject({ assign_ipv4: 'true', assign_ipv6: 'true' });

    const narrowed = await ctl('install cluster --method operator --pool 10.8.0.0/16 --yes');
    expect(narrowed).toMatchObject({ status: 69, out: '', err: expect.stringContaining('(fd00:81::/48), and would') });
    // No operator works here, so the installation does not become available.
    await ctl('install cluster --method operator --yes', {}, { until: NO_STATUS });
    const { spec } = await server.get('installation', 'default');
    expect(spec).toMatchObject({ registry: 'registry.example/n', calicoNetwork: { mtu: 1400 }, node: override });
    // The operator keeps the pools that exist, with all of their fields.
    expect(spec.calicoNetwork).not.toHaveProperty('ipPools');
    await server.kubectl('delete', 'deployment', '--namespace=netplug-system', 'netplug-operator');
    const edit = '{"spec":{"calicoNetwork":{"mtu":1300}}}';
    await server.kubectl('patch', 'installation', 'default', '--type=merge', `--patch=${edit}`);
    // An Installation counts more than the objects that its operator made.
    const again = await ctl('install cluster --method operator --dry-run');
    expect(again).toMatchObject({ status: 0, out: expect.not.stringContaining('Installation default') });
    await purge();
  });

  it.runIf(RARE)(
    'keeps etcd and its certificates when it is repeated, and refuses an etcd that is silent or of another cluster',
    async () => {
      await using _ = await kubelets();
      using folder = makeTlsFolder();
      const authority = folder.authority('etcd');
      const pair = authority.issue('127.0.0.1', ['127.0.0.1']);
      await using etcd = await startEtcd({ tls: { ...pair, clientCaFile: authority.certFile } });
      await using other = await startEtcd();
      const certificates = {
        KV_CA_CERT_FILE: authority.certFile,
        KV_CERT_FILE: pair.certFile,
        KV_KEY_FILE: pair.keyFile,
      };
      const env = { KV_ENDPOINTS: etcd.url, ...certificates };
      const by = 'install cluster --method manifest --yes';
      const silent = await ctl(`${by} --timeout 10`, { KV_ENDPOINTS: `http://127.0.0.1:${String(await freePort())}` });
      expect(silent).toMatchObject({ status: 75, out: '' });
      expect(await namesOf('namespaces,customresourcedefinitions')).toEqual([]);

      const first = await ctl(by, env);
      expect({ status: first.status, err: first.err.slice(-700) }).toEqual({ status: 0, err: expect.anything() });
      expect((await ctl('install cluster --method manifest --dry-run', env)).out).not.toMatch(/create|change/);
      const plain = await ctl(by, { KV_ENDPOINTS: etcd.url });
      expect(plain).toMatchObject({
        status: 69,
        out: '',
        err: expect.stringMatching(/installation\/datastore: KV_CERT_FILE: it is not set/),
      });
      const moved = await ctl(by, { KV_ENDPOINTS: other.url });
      const adopted = await ctl('install cluster --method operator --datastore orch --yes', env);
      expect(adopted).toMatchObject({
        status: 69,
        out: '',
        err: expect.stringMatching(/installation\/datastore: --datastore: .* in etcd/),
      });
      expect(moved).toMatchObject({
        status: 69,
        out: '',
        err: expect.stringContaining(`of the installation, ${etcd.url}`),
      });

      await using store = openKvStore({
        endpoints: { from: 'list', urls: [etcd.url] },
        caCertFile: authority.certFile,
        certFile: pair.certFile,
        keyFile: pair.keyFile,
      });
      const information = {
        apiVersion: 'netplug.io/v3',
        kind: 'ClusterInformation',
        metadata: { name: 'default' },
        spec: { datastoreReady: true, orchClusterUID: 'uid-of-another' },
      } as const;
      await store.createResource(information, AbortSignal.timeout(10_000));
      const foreign = await ctl(by, env);
      expect(foreign).toMatchObject({ status: 69, out: '', err: expect.stringContaining('of cluster uid-of-another') });
      await purge(env);
    },
  );

  it.runIf(RARE)(
    'writes the Installation of --spec as it is for the operator, and changes one that exists only with --spec',
    async () => {
      const path = `${server.dir}/installation.yaml`;
      const written = async (bandwidth: string): Promise<void> =>
        writeFile(
          path,
          `apiVersion: netplug.io/v3\nkind: Installation\nmetadata: { name: default }\nspec:\n  calicoNetwork: { bandwidth: ${bandwidth}, ipPools: [{ cidr: 10.81.0.0/16 }] }\n`,
        );
      await using _ = await kubelets();
      await written('Disabled');
      const by = 'install cluster --method operator';
      const { err } = await ctl(`${by} --spec ${path} --yes`, {}, { until: NO_STATUS });
      // No operator works here, so the installation does not become available.
      expect(err).toContain('waiting for installation: no status yet');
      expect((await server.get('installation', 'default')).spec).toEqual({
        calicoNetwork: { bandwidth: 'Disabled', ipPools: [{ cidr: '10.81.0.0/16' }] },
      });
      expect((await ctl(`${by} --spec ${path} --dry-run`)).out).not.toContain('Installation default');
      await written('Enabled');
      expect((await ctl(`${by} --spec ${path} --dry-run`)).out).toContain('change Installation default');
      expect((await ctl(`${by} --dry-run`)).out).not.toContain('Installation default');
      const moved = await ctl(`${by} --registry registry.example/n --dry-run`);
      expect(moved.out).toContain('change Installation default');
      const added = ['Installation default: spec.registry: "registry.example/n" (string) added'];
      expect(moved.err.match(/^Installation default: .*/gm)).toEqual(added);
      await server.kubectl('delete', 'deployment', '--namespace=netplug-system', 'netplug-operator');
      expect((await ctl(`${by} --dry-run`)).out).not.toContain('Installation default');
      await purge();
    },
  );

  it.runIf(RARE)('reports nodes that are not fit, images that cannot be pulled and connections that fail', async () => {
    const withFailure = async (behaviour: KubeletBehaviour): Promise<string> => {
      await using _ = await kubelets(behaviour);
      const { status, err } = await ctl('install cluster --method manifest --yes --timeout 60');
      expect(status).not.toBe(0);
      return err;
    };
    const conflist = '/etc/cni/net.d/05-other.conflist: the runtime reads this configuration of another plugin first';
    const left = 'warning: flannel has left 1 device ("flannel.1")';
    const unfit = await withFailure({
      failure: (pod) => (pod === 'netplug-node-check-node-b' ? conflist : undefined),
      message: (pod) => (pod === 'netplug-node-check-node-a' ? left : undefined),
    });
    expect(unfit).toContain(`node-a: ${left}\n`);
    expect(unfit).toContain(`1 nodes are not fit for it\n  node-b: ${conflist}`);
    expect(await namesOf('customresourcedefinitions,daemonsets')).toEqual([]);
    const unpulled = await withFailure({ waiting: (pod) => (pod.includes('check') ? 'ImagePullBackOff' : undefined) });
    expect(unpulled).toMatch(/ImagePullBackOff.*\n.*--registry/);
    const failed = await withFailure({
      failure: (pod) => (pod.includes('client-node-a') ? 'http://10.244.1.7:8080/: timed out' : undefined),
    });
    expect(failed).toContain('node-a: http://10.244.1.7:8080/: timed out');
    expect(await namesOf('pods,services,networkpolicies')).toEqual([]);
    await purge();
  });

  it.each(HELMS)('installs and removes by chart, with %s', async (name) => {
    await using _ = await kubelets();
    const helm = { HELM: program(name) };
    const { status, err } = await ctl('install cluster --method chart --yes', helm, { until: NO_STATUS });
    // No operator works here, so the installation does not become available.
    expect({ status, err: err.slice(-600) }).toMatchObject({
      status: 75,
      err: expect.stringContaining('waiting for installation: no status yet'),
    });
    const deployment = await server.get('deployment', '--namespace=netplug-system', 'netplug-operator');
    expect(deployment.metadata.annotations['meta.helm.sh/release-name']).toBe('netplug');
    expect((await server.get('installation', 'default')).spec).toEqual({
      calicoNetwork: { ipPools: [{ cidr: '192.168.0.0/16' }] },
    });
    const edit = '{"spec":{"calicoNetwork":{"mtu":1400}}}';
    await server.kubectl('patch', 'installation', 'default', '--type=merge', `--patch=${edit}`);
    expect(await ctl('install cluster --method chart --yes', helm, { until: NO_STATUS })).toMatchObject({ status: 75 });
    expect((await server.get('installation', 'default')).spec).toEqual({
      calicoNetwork: { ipPools: [{ cidr: '192.168.0.0/16' }], mtu: 1400 },
    });
    const plan = await ctl('uninstall cluster --purge --dry-run', helm);
    expect(plan.out).toMatch(/^cluster: .*\n1\. Chart\n {3}helm uninstall netplug --namespace netplug-system\n/);
    await purge(helm);
    expect(await namesOf('namespaces,customresourcedefinitions,clusterroles,clusterrolebindings')).toEqual([]);
  });

  it('refuses what would not work, with field and remedy, and changes nothing', async () => {
    const refused = async (argv: string, says: RegExp, kubeconfig?: string): Promise<void> => {
      const { status, out, err } = await ctl(argv, {}, { kubeconfig });
      expect({ argv, status, out }).toEqual({ argv, status: 69, out: '' });
      expect(err).toMatch(says);
      expect(err).toContain('nothing was changed');
    };
    const by = 'install cluster --method manifest --yes';
    await refused(
      by,
      /error {4}server\/rights: your account lacks rights .*\n +objects: .*patch daemonsets\.apps in namespace netplug-system/,
      limited,
    );
    await refused(
      `${by} --pool 10.96.0.0/12`,
      /error {4}pools\/overlap: --pool 10\.96\.0\.0\/12: the pool overlaps 10\.96\.0\.0\/16, a range of Services/,
    );
    await refused(`${by} --pool 172.20.0.0/24`, /overlaps .*, the address of node "node-a"/);
    await refused(
      `${by} --variant second-plugin`,
      /nodes\/no-pod-cidr: .*\n +objects: Node node-a, Node node-b\n[^]*--allocate-node-cidrs/,
    );
    const [definition] = structuredClone(crdManifests()) as Json[];
    const { schema } = definition.spec.versions[0];
    schema.openAPIV3Schema.properties.spec.properties.fromTheFuture = { type: 'string' };
    definition.metadata.labels = { 'netplug.io/release': 'v3.28.0-rc.1' };
    await server.apply([definition]);
    await refused(
      by,
      /CustomResourceDefinition ipblocks\.netplug\.io is of release v3\.28\.0-rc\.1, this tool is v3\.27\.0\n[^]* Use netplugctl v3\.28\.0-rc\.1/,
    );
    definition.metadata.labels = {};
    await server.apply([definition]);
    const edited = await ctl('install cluster --method manifest --dry-run');
    expect(edited.err).toContain(
      'CustomResourceDefinition ipblocks.netplug.io has fields that v3.27.0 does not have: spec.fromTheFuture',
    );
    delete schema.openAPIV3Schema.properties.spec.properties.fromTheFuture;
    delete schema.openAPIV3Schema.properties.spec.properties.node;
    await server.apply([definition]);
    const older = await ctl('install cluster --method manifest --dry-run');
    expect(older.err).toContain('CustomResourceDefinition ipblocks.netplug.io lacks spec.node');
    expect(older.out).toContain('change CustomResourceDefinition ipblocks.netplug.io');
    await server.kubectl('delete', 'crd', 'ipblocks.netplug.io');
    const hook = webhook('pods.policy.example');
    hook.webhooks[0].namespaceSelector = {
      matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system'] }],
    };
    await server.apply([hook]);
    const hooked = await ctl('install cluster --method manifest --dry-run');
    await server.kubectl('delete', 'validatingwebhookconfiguration', hook.metadata.name);
    expect(hooked.err).toMatch(
      /warning  server\/webhooks: .*\n +objects: pods\.policy\.example\/pods\.policy\.example\n/,
    );
    const labels = { app: 'x' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'b' }] } };
    const set = {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name: 'cilium', namespace: 'kube-system' },
      spec: { selector: { matchLabels: labels }, template },
    };
    await server.apply([set]);
    await refused(by, /cluster\/other-plugin: .*\n +objects: DaemonSet kube-system\/cilium\n/);
    await server.kubectl('delete', 'daemonset', '--namespace=kube-system', 'cilium');
    const lease = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'node-a', namespace: 'kube-node-lease' },
    };
    const renewTime = new Date(Date.now() + 120_000).toISOString().replace('Z', '000Z');
    await server.kubectl('create', 'namespace', 'kube-node-lease').catch(() => undefined);
    await server.apply([{ ...lease, spec: { holderIdentity: 'node-a', renewTime } }]);
    await refused(by, /nodes\/clock-skew: .*\n +objects: Node node-a \(1\d\d s ahead\)\n/);
    await server.kubectl('delete', 'lease', '--namespace=kube-node-lease', 'node-a');
    expect(await namesOf('namespaces,customresourcedefinitions')).toEqual([]);
  });

  it.runIf(RARE)('removes what a killed upgrade has left, also from a node that does not answer', async () => {
    const metadata = { name: 'netplug-system' };
    const labels = { 'app.kubernetes.io/name': 'netplug-flow-client', 'app.kubernetes.io/part-of': 'netplug' };
    await server.apply([
      { apiVersion: 'v1', kind: 'Namespace', metadata },
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'netplug-flow-client-node-a', namespace: metadata.name, labels },
        spec: { nodeName: 'node-a', containers: [{ name: 'probe', image: 'netplug' }] },
      },
    ]);
    const { status, err } = await ctl('uninstall cluster --yes --timeout 100');
    expect({ status, err }).toMatchObject({ status: 0 });
    expect(await namesOf('pods')).toEqual([]);
  });

  it('refuses certificates of etcd that cannot be read, and methods that cannot use etcd', async () => {
    const env = {
      KV_ENDPOINTS: 'https://10.0.0.1:2379',
      KV_CA_CERT_FILE: '/none/ca',
      KV_CERT_FILE: '/none/cert',
      KV_KEY_FILE: server.caFile,
    };
    const { status, err } = await ctl('install cluster --method manifest --yes', env);
    expect(status).toBe(69);
    expect(err).toMatch(/certificates of etcd: \/none\/ca: cannot be read/);
    expect(err).toMatch(/is no private key that can be read/);
    const operator = await ctl('install cluster --method operator --yes', { KV_ENDPOINTS: 'http://10.0.0.1:2379' });
    expect(operator).toMatchObject({
      status: 64,
      err: expect.stringContaining('Use --method manifest, or --datastore orch'),
    });
    const unconfirmed = await ctl('install cluster --method manifest');
    expect(unconfirmed).toMatchObject({ status: 64, err: expect.stringContaining('Add --yes') });
    const noHelm = await ctl('install cluster --method chart --yes', { HELM: '/none/helm' });
    expect(noHelm).toMatchObject({ status: 72, err: expect.stringContaining('name it with HELM') });
  });
});
