// The built tool upgrades clusters on a real API server, with pods that exist as objects.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../src/datastore/store.ts';
import { HOLD_AGENTS } from '../../src/model/installation.ts';
import { crdManifests } from '../../src/datastore/orch/crd-manifests.ts';
import { chartFiles } from '../../src/install/cluster/chart/chart-files.ts';
import { namespaceObject } from '../../src/install/cluster/cluster-objects.ts';
import { imageNames } from '../../src/install/cluster/names.ts';
import { operatorObjects } from '../../src/install/cluster/operator-deployment.ts';
import { type ManifestKind, manifestObjects, RELEASE_MANIFESTS } from '../../src/install/cluster/release-manifests.ts';
import { program } from '../support/components.ts';
import { hostEndpointOf, poolOf } from '../support/fixtures.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import type { Json } from '../support/node.ts';
import { until } from '../support/until.ts';
import { NO_REGISTRY, type SimulatedRollout, startSimulatedRollout } from '../support/simulated-rollout.ts';
import {
  addNode,
  agentsOf,
  applyByHand,
  NETPLUGCTL,
  NEW,
  OLD,
  openRecords,
  type Ran,
  requireBuild,
  runTool,
  settled as clusterSettled,
} from '../support/upgradable-cluster.ts';
import { webhook } from '../support/upgrade-hazards.ts';

const NODES = ['node-a', 'node-b', 'node-c'];
/** What the pod that sends datagrams prints, and what the tool makes of it. */
const LOSS = 'udp://SERVER:8080: 40 of 900 datagrams lost within 1.9 s from 2026-11-27T00:00:00.000Z';
const SAID = /node-b: udp:\/\/192\.168\.[\d.]+:8080: 40 of 900 datagrams lost within 1\.9 s/;

let folder: string;
let server: ApiServer;
let store: Store;
let rollout: SimulatedRollout;
let isPaused: boolean;
let env: Record<string, string>;
beforeAll(() => {
  requireBuild();
});
beforeEach(async () => {
  isPaused = false;
  folder = await mkdtemp(join(tmpdir(), 'netplug-upgrade-'));
  server = await startApiServer();
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    KUBECONFIG: server.kubeconfig,
    HELM: program('helm'),
    NETPLUG_STATE_DIR: join(folder, 'state'),
  };
  for (const [index, name] of NODES.entries()) await addNode(server, name, `172.20.0.${String(11 + index)}`);
});
afterEach(async () => {
  await rollout?.[Symbol.asyncDispose]();
  await store?.[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});
afterAll(() => undefined);

async function ctl(argv: string): Promise<Ran> {
  return runTool(argv.split(' '), env);
}

/** Runs the tool, which must succeed, and returns what it printed. */
async function must(argv: string): Promise<string> {
  const { status, stdout, stderr } = await ctl(argv);
  if (status !== 0) throw new Error(`netplugctl ${argv}: status ${String(status)}: ${stderr}`);
  return stdout;
}

/** Brings up the older release by manifest. */
async function installOld(
  kind: ManifestKind,
  release = OLD,
  failure: (pod: string) => string | undefined = () => undefined,
): Promise<void> {
  const { datastore } = kind;
  if (datastore === 'kvv3') env = { ...env, KV_ENDPOINTS: server.etcdUrl };
  await applyByHand(server, manifestObjects(kind, { release, endpoints: server.etcdUrl }));
  store = openRecords(server, datastore);
  rollout = startSimulatedRollout(server, { store, failure, isPaused: () => isPaused });
  await settled(release);
}

/** Names of the pods that prove the network or send packets. */
async function probePods(): Promise<readonly string[]> {
  const { items } = await server.get('pods', '-n', 'netplug-system');
  return items.map(({ metadata }: Json) => metadata.name).filter((name: string) => /^netplug-(probe|flow)/.test(name));
}

/** Node and release of each agent. */
async function releases(): Promise<readonly string[]> {
  return (await agentsOf(server)).map(({ node, image }) => `${node} ${image.split(':')[1] ?? ''}`).sort();
}

/** Returns what a pod prints that does not reach another one. */
function unreached(pod: string): string | undefined {
  return pod.startsWith('netplug-probe-client') ? 'http://10.244.0.7:8080/: timed out' : undefined;
}

/** Applies while no node can prove its network. */
async function expectStoppedAfterFirst(): Promise<void> {
  expect(await ctl('upgrade apply --yes')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('Stopped after node "node-a"') as string,
  });
  expect(await releases()).toEqual([`node-a ${NEW}`, `node-b ${OLD}`, `node-c ${OLD}`]);
}

async function phaseOf(pod: string): Promise<string> {
  return (await server.get('pod', pod, '-n', 'netplug-system')).status.phase;
}

async function settled(release: string): Promise<void> {
  return clusterSettled(server, release, NODES.length);
}

/** What a rollback must restore of the cluster: everything but what the API counts and dates itself. */
async function stateOfCluster(): Promise<readonly string[]> {
  const kinds = 'serviceaccounts,secrets,configmaps,roles,rolebindings,daemonsets,deployments';
  const [own, wide] = [
    await server.get(kinds, '-n', 'netplug-system'),
    await server.get('namespaces,clusterroles,clusterrolebindings', '-l', 'app.kubernetes.io/part-of=netplug'),
  ];
  return [...own.items, ...wide.items]
    .map(({ kind, metadata, ...whole }: Json) => {
      const { status: _status, ...content } = whole;
      const { 'deprecated.daemonset.template.generation': _generation, ...annotations } = metadata.annotations ?? {};
      return JSON.stringify({ kind, name: metadata.name, labels: metadata.labels, annotations, ...content });
    })
    .sort();
}

/** With it, also what another test of this file shows in another way. */
const SOAK = process.env['NETPLUG_SOAK'] === '1';
/** Each of the eight steps is recorded before and after it. */
const RECORDS = 16;
const KILLED_AT = SOAK ? Array.from({ length: RECORDS }, (_, at) => at + 1) : [RECORDS / 2 + 1];
const MANIFESTS = SOAK ? RELEASE_MANIFESTS : RELEASE_MANIFESTS.slice(0, 1);

describe('netplugctl upgrade', () => {
  it.each(MANIFESTS)(
    'plans, checks, applies, verifies and undoes an upgrade by manifest: $datastore, $variant [up-methods] [svc-upgrade]',
    async (kind) => {
      await installOld(kind);
      const before = await stateOfCluster();
      const plan = await ctl(`upgrade plan --save ${folder}/snapshot.json`);
      expect(plan).toMatchObject({ status: 0, stderr: '' });
      expect(plan.stdout).toContain(`Upgrade from ${OLD} to ${NEW}: installed by manifest, ${kind.variant}`);
      expect(plan.stdout).toContain(kind.file);
      expect((await ctl(`upgrade plan --from ${folder}/snapshot.json`)).stdout).toBe(plan.stdout);
      const preflight = await ctl('upgrade preflight -o json');
      const { hazards } = JSON.parse(preflight.stdout);
      expect(hazards.map(({ id }: Json) => id)).toEqual(kind.datastore === 'kvv3' ? ['datastore/kv-recommended'] : []);
      expect(preflight.status).toBe(0);
      expect(await ctl('upgrade verify --no-proof')).toMatchObject({ status: 1 });

      const applied = await ctl('upgrade apply --yes');
      expect(applied).toMatchObject({
        status: 0,
        stdout: expect.stringContaining(`the cluster has release ${NEW}`) as string,
      });
      expect(applied.stderr).toMatch(/packets between pods of 3 nodes: none lost in \d\.\d minutes/);
      const isWhole = kind.variant === 'policy-and-networking';
      expect(applied.stderr).toMatch(
        isWhole ? /network proved: 3 nodes, .* policy, addresses\n/ : /network proved: 3 nodes, .* policy\n/,
      );
      expect(await probePods()).toEqual([]);
      const [first, ...others] = rollout.started.slice(NODES.length);
      expect(first).toEqual({ node: 'node-a', release: NEW });
      expect(others.map(({ node }) => node)).toEqual(['node-b', 'node-c']);
      const verified = await must('upgrade verify');
      expect(verified).toContain(`cluster version ${NEW}`);
      expect(verified).toContain('because the manifest has the container agent');
      const again = await ctl('upgrade plan');
      expect(again.stdout).not.toContain('to do');
      await must('upgrade apply --yes');

      expect(await must('upgrade rollback --yes')).toContain(`the cluster has release ${OLD} again`);
      await settled(OLD);
      expect(await stateOfCluster()).toEqual(before);
      const { resources } = await store.listResources('ClusterInformation', new AbortController().signal);
      expect(resources[0]?.spec.netplugVersion).toBe(OLD);
      expect(rollout.gaps()).toBe(0);
    },
    400_000,
  );

  it('replaces the operator, which holds the agents while one node is tried, and goes back [up-methods]', async () => {
    let isBroken = true;
    let lettingGo: Promise<unknown> | undefined;
    await installOperator(OLD, (pod) => {
      if (!isBroken && pod.startsWith('netplug-probe-server'))
        lettingGo ??= server.kubectl('annotate', 'installation', 'default', `${HOLD_AGENTS}-`);
      return isBroken ? unreached(pod) : undefined;
    });
    const before = await stateOfCluster();
    const plan = await must('upgrade plan');
    expect(plan).toContain('installed by the operator');
    expect(plan).toContain('netplug-operator.yaml');
    await expectStoppedAfterFirst();
    isBroken = false;
    const letGo = await ctl('upgrade apply --yes');
    await lettingGo;
    expect(letGo).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(
        `has removed the annotation ${HOLD_AGENTS} of the Installation while the node was tried`,
      ) as string,
    });
    expect(letGo.stderr).toMatch(new RegExp(`nodes with ${NEW}: node-a`));
    const annotated = await server.get('installation', 'default');
    expect(annotated.metadata.annotations).toHaveProperty([HOLD_AGENTS]);
    await must('upgrade apply --yes');
    await settled(NEW);
    expect((await server.get('installation', 'default')).metadata.annotations ?? {}).not.toHaveProperty([HOLD_AGENTS]);
    expect(await must('upgrade verify')).toContain('Deployment/netplug-system/netplug-operator has the release');
    await must('upgrade rollback --yes');
    await settled(OLD);
    expect(await stateOfCluster()).toEqual(before);
  }, 400_000);

  it.each(SOAK ? (['helm', 'helm-3'] as const) : (['helm'] as const))(
    'passes a chart from before v3.23 on to the namespace of the operator, with real %s [up-methods]',
    async (helm) => {
      env = { ...env, HELM: program(helm) };
      const release = 'v3.22.1';
      await applyByHand(server, [...crdManifests(), namespaceObject(release)]);
      store = openRecords(server, 'orch');
      await helmInstall(release);
      rollout = startSimulatedRollout(server, { store });
      await settled(release);
      const records = await chartRecords();
      expect(records).toEqual(['default/sh.helm.release.v1.calico.v1']);
      const plan = await must('upgrade plan');
      expect(plan).toContain('installed by the chart');
      expect(plan).toContain('skip PodSecurityPolicy "netplug-operator": the API server does not serve this kind');
      expect(plan).toContain('[optional] delete-records');
      await must('upgrade apply --yes');
      await settled(NEW);
      expect(await chartRecords()).toEqual([...records, 'netplug-system/sh.helm.release.v1.calico.v1']);
      const { metadata } = await server.get('deployment', 'netplug-operator', '-n', 'netplug-system');
      expect(metadata.annotations['meta.helm.sh/release-namespace']).toBe('netplug-system');
      expect((await server.get('installation', 'default')).spec.calicoNetwork.mtu).toBe(1400);
      await must('upgrade verify');

      await must('upgrade rollback --yes');
      await settled(release);
      expect(await chartRecords()).toEqual(records);
      const old = await server.get('deployment', 'netplug-operator', '-n', 'netplug-system');
      expect(old.metadata.annotations['meta.helm.sh/release-namespace']).toBe('default');

      await must('upgrade apply --yes --with delete-records');
      expect(await chartRecords()).toEqual(['netplug-system/sh.helm.release.v1.calico.v1']);
      await must('upgrade verify');
    },
    400_000,
  );

  it('prepares host endpoints for all interfaces when it begins before v3.14, and restores them [up-hostendpoints]', async () => {
    const never = new AbortController().signal;
    await installOld(RELEASE_MANIFESTS[0], 'v3.13.5');
    const labels = { role: 'gateway' };
    await store.createResource(hostEndpointOf('all', 'node-a', { labels }), never);
    const [before] = (await store.listResources('HostEndpoint', never)).resources;
    const refused = await ctl('upgrade preflight');
    expect(refused).toMatchObject({ status: 1 });
    expect(refused.stdout).toContain('host-endpoints/unprepared');
    expect(await ctl('upgrade apply --yes')).toMatchObject({ status: 69 });
    await must('upgrade apply --yes --accept host-endpoints/unprepared');
    const [marked] = (await store.listResources('HostEndpoint', never)).resources;
    expect(marked?.metadata.labels).toEqual({ ...labels, 'netplug/host-endpoint-upgrade': '' });
    const policy = { kind: 'GlobalNetworkPolicy', name: 'allow-all-upgrade' } as const;
    expect((await store.findResource(policy, never))?.spec.selector).toBe('has(netplug/host-endpoint-upgrade)');

    await must('upgrade rollback --yes');
    const [restored] = (await store.listResources('HostEndpoint', never)).resources;
    expect(restored?.metadata.labels).toEqual(labels);
    expect(restored?.spec).toEqual(before?.spec);
    expect(await store.findResource(policy, never)).toBeUndefined();

    await store.deleteResource({ kind: 'HostEndpoint', name: 'all' }, never);
    const late = await ctl('upgrade rollback --yes');
    expect(late).toMatchObject({
      status: 69,
      stderr: expect.stringContaining('HostEndpoint "all" has been replaced') as string,
    });
  }, 400_000);

  it.runIf(SOAK)(
    'stops after the first node when its network fails, and goes on when it works',
    async () => {
      let isBroken = true;
      await installOld(RELEASE_MANIFESTS[0], OLD, (pod) => (isBroken ? unreached(pod) : undefined));
      await expectStoppedAfterFirst();
      isBroken = false;
      await must('upgrade apply --yes');
      await settled(NEW);
      await must('upgrade rollback --yes');
      await settled(OLD);
    },
    400_000,
  );

  it.each(SOAK ? ['manifest', 'operator'] : ['operator'])(
    'stops the roll-out by %s when packets are lost, and goes on when it is asked to',
    async (method) => {
      let isLosing = (): boolean => rollout.started.some(({ node, release }) => node === 'node-b' && release === NEW);
      const failure = (pod: string): string | undefined =>
        pod.startsWith('netplug-flow-client') && isLosing() ? LOSS : undefined;
      await (method === 'manifest' ? installOld(RELEASE_MANIFESTS[0], OLD, failure) : installOperator(OLD, failure));
      const stopped = await ctl('upgrade apply --yes');
      expect(stopped).toMatchObject({ status: 1, stderr: expect.stringMatching(SAID) as string });
      expect(stopped.stderr).toContain('upgrade/packets-lost');
      const isHeld = async (): Promise<boolean> =>
        (await server.get('daemonset', 'netplug-node', '-n', 'netplug-system')).spec.updateStrategy.type === 'OnDelete';
      await until(isHeld, 'no agent is replaced any more');
      expect(await probePods()).toEqual([]);

      isLosing = () => false;
      expect((await ctl('upgrade apply --yes')).stderr).toContain('none lost');
      await settled(NEW);
      await must('upgrade rollback --yes');
      await settled(OLD);
    },
    400_000,
  );

  it('reports packets that were lost while it was not there, and none of a node that goes down', async () => {
    let isLosing = false;
    await installOld(RELEASE_MANIFESTS[0], OLD, (pod) =>
      isLosing && pod.startsWith('netplug-flow-client') ? LOSS : undefined,
    );
    const child = spawn(NETPLUGCTL, ['upgrade', 'apply', '--yes'], { env, stdio: 'ignore' });
    const isFirstReplaced = (): boolean => rollout.started.some(({ release }) => release === NEW);
    await until(async () => Promise.resolve(isFirstReplaced()), 'the first agent is replaced', 120_000);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await probePods()).toContain('netplug-flow-client-node-b');
    isLosing = true;
    await until(async () => (await phaseOf('netplug-flow-client-node-b')) === 'Failed', 'packets are lost');
    isLosing = false;
    expect(await ctl('upgrade apply --yes')).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(SAID) as string,
    });
    const last = ctl('upgrade apply --yes');
    await until(async () => (await probePods()).includes('netplug-flow-client-node-b'), 'packets flow', 120_000);
    await goDown('node-c', 'netplug-flow-server-node-c');
    const { status, stderr } = await last;
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.anything() });
    expect(stderr).toContain('packets are watched anew');
    expect(await probePods()).toEqual([]);
  }, 400_000);

  it('keeps another call out, goes back while a call is paused, and needs no pods without proof', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    await must('upgrade apply --yes --no-proof');
    expect(rollout.started.length).toBe(2 * NODES.length);
    expect(rollout.probes()).toEqual([]);
    await must('upgrade rollback --yes');
    await settled(OLD);
    const child = spawn(NETPLUGCTL, ['upgrade', 'apply', '--yes'], { env, stdio: 'ignore' });
    const ended = once(child, 'exit');
    await until(async () => (await probePods()).includes('netplug-flow-client-node-b'), 'packets flow', 120_000);
    const elsewhere = { ...env, NETPLUG_STATE_DIR: join(folder, 'elsewhere') };
    const others = ['apply', 'rollback'].map(async (action) => runTool(['upgrade', action, '--yes'], elsewhere));
    const stderr = expect.stringMatching(/another call of netplugctl is at work on \S+/) as string;
    for (const other of await Promise.all(others)) expect(other).toMatchObject({ status: 75, stderr });
    child.kill('SIGSTOP');
    await must('upgrade rollback --yes');
    child.kill('SIGCONT');
    expect(await ended).toEqual([75, null]);
    await settled(OLD);
    expect(await probePods()).toEqual([]);
  }, 400_000);

  it('finds ten hazards that are there at once', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    const never = new AbortController().signal;
    await server.kubectl('cordon', 'node-c');
    const notReady = { status: { conditions: [{ type: 'Ready', status: 'False', reason: 'KubeletNotReady' }] } };
    await server.kubectl(
      'patch',
      'node',
      'node-b',
      '--subresource=status',
      '--type=merge',
      `--patch=${JSON.stringify(notReady)}`,
    );
    const inSystem = ['-n', 'netplug-system'];
    await server.kubectl(
      'annotate',
      'daemonset',
      'netplug-node',
      ...inSystem,
      'argocd.argoproj.io/tracking-id=netplug:apps',
    );
    const edit = { spec: { minReadySeconds: 77 } };
    await server.kubectl(
      'patch',
      'daemonset',
      'netplug-node',
      ...inSystem,
      '--type=merge',
      `--patch=${JSON.stringify(edit)}`,
      '--field-manager=kubectl-edit',
    );
    await server.apply([
      webhook('deny.policy.example'),
      {
        apiVersion: 'v1',
        kind: 'Secret',
        type: 'helm.sh/release.v1',
        metadata: { name: 'sh.helm.release.v1.broken.v1', namespace: 'default', labels: { owner: 'helm' } },
        stringData: { release: 'not a release' },
      },
    ]);
    await store.createResource(poolOf('wide', '172.20.0.0/24'), never);
    await store.createResource(hostEndpointOf('all', 'node-a'), never);
    await server.kubectl(
      'patch',
      'clusterinformation',
      'default',
      '--type=merge',
      '--patch={"spec":{"datastoreReady":false}}',
    );
    const limited = await server.kubeconfigFor(await limitedToken());
    env = { ...env, KUBECONFIG: limited };
    const { stdout, status } = await ctl('upgrade preflight -o json');
    const { hazards } = JSON.parse(stdout);
    expect(status).toBe(1);
    expect(new Set(hazards.map(({ id }: Json) => id))).toEqual(
      new Set([
        'nodes/not-ready',
        'nodes/cordoned',
        'objects/gitops',
        'objects/fields-lost',
        'server/webhooks',
        'server/rights',
        'datastore/unreadable',
        'datastore/locked',
        'addresses/pool-overlaps-nodes',
        'host-endpoints/all-interfaces',
      ]),
    );
    const sarif = JSON.parse((await ctl('upgrade preflight -o sarif')).stdout);
    expect(sarif.runs[0].results).toHaveLength(hazards.length);
    const refused = await ctl('upgrade apply --yes');
    expect(refused).toMatchObject({ status: 69, stderr: expect.stringContaining('nothing was changed') as string });
    expect(refused.stderr).toMatch(/^warning: no other call is kept out: .*\n.*objects\/fields-lost/);
    expect(rollout.started.every(({ release }) => release === OLD)).toBe(true);
  }, 120_000);

  it('goes on where it was when it is killed at any record of its progress, and goes back [up-methods]', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    const before = await stateOfCluster();
    for (const records of KILLED_AT) {
      expect(await killAt(records, 'upgrade apply --yes')).toBe(true);
      await must('upgrade apply --yes');
      await settled(NEW);
      await must('upgrade verify --no-proof');
      await must('upgrade rollback --yes');
      await settled(OLD);
      expect(await stateOfCluster()).toEqual(before);
    }
    expect(rollout.gaps()).toBe(0);
  }, 1_200_000);

  it('takes the options of the last call when it goes on, and goes back to the backup of the first one', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    await server.kubectl('cordon', 'node-c');
    const before = await stateOfCluster();
    const wrong = await ctl(`upgrade apply --yes --no-proof --registry ${NO_REGISTRY}`);
    expect(wrong).toMatchObject({ status: 69, stderr: expect.stringContaining('with --registry') as string });
    const { status, stderr } = await ctl('upgrade apply --yes --registry netplug.io');
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.anything() });
    expect(stderr).toContain('the backup from before is kept');
    expect(stderr).toMatch(/network proved: 3 nodes, .*\n[^]*network proved: 3 nodes, /);
    await settled(NEW);
    const { spec } = await server.get('deployment', 'netplug-orch-controllers', '-n', 'netplug-system');
    expect(spec.template.spec.containers[0].image).toBe(imageNames(NEW).tools);

    isPaused = true;
    const unfinished = await ctl('upgrade rollback --yes --timeout 15');
    expect(unfinished.status).not.toBe(0);
    const agents = await server.get('daemonset', 'netplug-node', '-n', 'netplug-system');
    expect(agents.spec.template.spec.containers[0].image).toBe(imageNames(OLD).node);
    const again = await ctl('upgrade rollback --yes --timeout 8');
    expect(again.status).not.toBe(0);
    expect(again.stdout).toContain('wait until netplug-node runs everywhere');
    isPaused = false;
    await must('upgrade rollback --yes');
    expect(new Set((await releases()).map((each) => each.split(' ')[1]))).toEqual(new Set([OLD]));
    expect(await stateOfCluster()).toEqual(before);
  }, 400_000);

  it.runIf(SOAK)(
    'ends an operation of helm that was killed with it',
    async () => {
      const release = 'v3.22.1';
      await applyByHand(server, [...crdManifests(), namespaceObject(release)]);
      store = openRecords(server, 'orch');
      await helmInstall(release);
      rollout = startSimulatedRollout(server, { store });
      await settled(release);
      expect(await killAt(4, 'upgrade apply --yes')).toBe(true);
      const [record] = (await server.get('secrets', '-A', '-l', 'owner=helm')).items;
      const packed = Buffer.from(Buffer.from(record.data.release, 'base64').toString('latin1'), 'base64');
      const held = JSON.parse(gunzipSync(packed).toString('utf8'));
      const pending = { ...held, namespace: 'netplug-system', info: { ...held.info, status: 'pending-install' } };
      const name = 'sh.helm.release.v1.calico.v1';
      const labels = { ...record.metadata.labels, status: 'pending-install', version: '1' };
      await server.apply([
        {
          apiVersion: 'v1',
          kind: 'Secret',
          type: 'helm.sh/release.v1',
          metadata: { name, namespace: 'netplug-system', labels },
          stringData: { release: gzipSync(JSON.stringify(pending)).toString('base64') },
        },
      ]);
      const { status, stderr } = await ctl('upgrade apply --yes');
      expect({ status, stderr }).toEqual({ status: 0, stderr: expect.anything() });
      expect(stderr).toContain('waiting for an operation of helm that has begun before');
      await settled(NEW);
      await must('upgrade verify');
    },
    400_000,
  );

  it('backs up without changing anything, and detects a damaged backup', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    const backup = join(folder, 'backup');
    expect(await must(`upgrade backup --to ${backup}`)).toContain('every checksum matches');
    expect(await must(`upgrade backup --check ${backup}`)).toContain(`release ${OLD}`);
    const file = join(backup, 'objects.json');
    await writeFile(file, (await readFile(file, 'utf8')).replace('netplug-node', 'netplug-nobody'));
    expect(await ctl(`upgrade backup --check ${backup}`)).toMatchObject({
      status: 65,
      stderr: expect.stringContaining('checksum of objects.json') as string,
    });
    expect(await ctl(`upgrade rollback --yes --from ${backup}`)).toMatchObject({ status: 65 });
  }, 120_000);
});

/** Reports a node and its pod as not ready, as when its kubelet is gone. */
async function goDown(node: string, pod: string): Promise<void> {
  const conditions = [{ type: 'Ready', status: 'False', reason: 'NodeStatusUnknown' }];
  const patch = ['--subresource=status', '--type=merge', `--patch=${JSON.stringify({ status: { conditions } })}`];
  await server.kubectl('patch', 'node', node, ...patch);
  await server.kubectl('patch', 'pod', pod, '-n', 'netplug-system', ...patch);
}

/** Reads everything that a plan needs, and writes nothing but a rehearsal of workloads. */
async function limitedToken(): Promise<string> {
  const token = await server.tokenFor('default/limited');
  const rules = [
    { apiGroups: ['*'], resources: ['*'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['apps'], resources: ['daemonsets'], verbs: ['patch'] },
  ];
  const subjects = [{ kind: 'ServiceAccount', name: 'limited', namespace: 'default' }];
  await server.apply([
    { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'limited' }, rules },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'limited' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'limited' },
      subjects,
    },
  ]);
  return token;
}

async function installOperator(release: string, failure?: (pod: string) => string | undefined): Promise<void> {
  const images = { ...imageNames(release), pullSecrets: [] };
  await applyByHand(server, [...crdManifests(), ...operatorObjects({ release, images, replicas: 1, override: {} })]);
  await applyByHand(server, [
    { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' }, spec: {} },
  ]);
  store = openRecords(server, 'orch');
  rollout = startSimulatedRollout(server, { store, ...(failure === undefined ? {} : { failure }) });
  await settled(release);
}

/** Installs the chart as charts before v3.23 were: into the default namespace. */
async function helmInstall(release: string): Promise<void> {
  const chart = join(folder, 'chart');
  for (const [path, text] of Object.entries(chartFiles(release))) {
    await mkdir(dirname(join(chart, path)), { recursive: true });
    await writeFile(
      join(chart, path),
      text.replace('ne .Release.Namespace "netplug-system"', 'ne .Release.Namespace "default"'),
    );
  }
  await promisify(execFile)(
    env['HELM']!,
    ['install', 'calico', chart, '--namespace', 'default', '--set', 'installation.calicoNetwork.mtu=1400'],
    { env },
  );
}

async function chartRecords(): Promise<readonly string[]> {
  const { items } = await server.get('secrets', '-A', '-l', 'owner=helm');
  return items.map(({ metadata }: Json) => `${metadata.namespace}/${metadata.name}`).sort();
}

/** Calls the tool and kills it at the given record of its progress. Returns whether it was killed. */
async function killAt(records: number, argv: string): Promise<boolean> {
  const plans = join(folder, 'state/plans');
  await mkdir(plans, { recursive: true });
  const child = spawn(NETPLUGCTL, argv.split(' '), { env, stdio: 'ignore' });
  let left = records;
  const watcher = watch(plans, (event, name) => {
    if (event !== 'rename' || name?.endsWith('.json') !== true) return;
    left -= 1;
    if (left === 0) child.kill('SIGKILL');
  });
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  watcher.close();
  return signal === 'SIGKILL';
}
