// The built tool upgrades clusters on a real API server by every method, and goes back.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { HOLD_AGENTS } from '../../src/model/installation.ts';
import { RELEASE_MANIFESTS } from '../../src/install/cluster/release-manifests.ts';
import { inExtent, runsHere } from '../runs.ts';
import { program } from '../support/components.ts';
import { hostEndpointOf, poolOf } from '../support/fixtures.ts';
import { type Json } from '../support/node.ts';
import { NEW, OLD } from '../support/upgradable-cluster.ts';
import { webhook } from '../support/upgrade-hazards.ts';
import {
  chartRecords,
  ctl,
  expectStoppedAfterFirst,
  installChart,
  installOld,
  installOperator,
  must,
  NODES,
  probePods,
  scene,
  settled,
  stateOfCluster,
  unreached,
  useUpgradeScene,
} from '../support/upgrade-scene.ts';

const MANIFESTS = inExtent<readonly (typeof RELEASE_MANIFESTS)[number][]>({
  everyday: RELEASE_MANIFESTS.slice(0, 1),
  soak: RELEASE_MANIFESTS,
});

const OTHERS = runsHere('e2e/upgrade: other methods');

useUpgradeScene();

describe('netplugctl upgrade', () => {
  it.each(MANIFESTS)(
    'plans, checks, applies, verifies and undoes an upgrade by manifest: $datastore, $variant [up-methods] [svc-upgrade]',
    async (kind) => {
      await installOld(kind);
      const before = await stateOfCluster();
      const plan = await ctl(`upgrade plan --save ${scene.folder}/snapshot.json`);
      expect(plan).toMatchObject({ status: 0, stderr: '' });
      expect(plan.stdout).toContain(`Upgrade from ${OLD} to ${NEW}: installed by manifest, ${kind.variant}`);
      expect(plan.stdout).toContain(kind.file);
      expect((await ctl(`upgrade plan --from ${scene.folder}/snapshot.json`)).stdout).toBe(plan.stdout);
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
      const [first, ...others] = scene.rollout.started.slice(NODES.length);
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
      const { resources } = await scene.store.listResources('ClusterInformation', new AbortController().signal);
      expect(resources[0]?.spec.netplugVersion).toBe(OLD);
      expect(scene.rollout.gaps()).toBe(0);
    },
    400_000,
  );

  it.runIf(OTHERS)(
    'replaces the operator, which holds the agents while one node is tried, and goes back [up-methods]',
    async () => {
      let isBroken = true;
      let lettingGo: Promise<unknown> | undefined;
      await installOperator(OLD, (pod) => {
        if (!isBroken && pod.startsWith('netplug-probe-server'))
          lettingGo ??= scene.server.kubectl('annotate', 'installation', 'default', `${HOLD_AGENTS}-`);
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
      const annotated = await scene.server.get('installation', 'default');
      expect(annotated.metadata.annotations).toHaveProperty([HOLD_AGENTS]);
      await must('upgrade apply --yes');
      await settled(NEW);
      expect((await scene.server.get('installation', 'default')).metadata.annotations ?? {}).not.toHaveProperty([
        HOLD_AGENTS,
      ]);
      expect(await must('upgrade verify')).toContain('Deployment netplug-system/netplug-operator has the release');
      await must('upgrade rollback --yes');
      await settled(OLD);
      expect(await stateOfCluster()).toEqual(before);
    },
    400_000,
  );

  it.runIf(OTHERS).each(['helm', 'helm-3'] as const)(
    'passes a chart from before v3.23 on to the namespace of the operator, with real %s [up-methods]',
    async (helm) => {
      scene.env = { ...scene.env, HELM: program(helm) };
      const release = 'v3.22.1';
      await installChart(release);
      const records = await chartRecords();
      expect(records).toEqual(['default/sh.helm.release.v1.calico.v1']);
      const plan = await must('upgrade plan');
      expect(plan).toContain('installed by the chart');
      expect(plan).toContain('skip PodSecurityPolicy "netplug-operator": the API server does not serve this kind');
      expect(plan).toContain('[optional] delete-records');
      await must('upgrade apply --yes');
      await settled(NEW);
      expect(await chartRecords()).toEqual([...records, 'netplug-system/sh.helm.release.v1.calico.v1']);
      const { metadata } = await scene.server.get('deployment', 'netplug-operator', '-n', 'netplug-system');
      expect(metadata.annotations['meta.helm.sh/release-namespace']).toBe('netplug-system');
      expect((await scene.server.get('installation', 'default')).spec.calicoNetwork.mtu).toBe(1400);
      await must('upgrade verify');

      await must('upgrade rollback --yes');
      await settled(release);
      expect(await chartRecords()).toEqual(records);
      const old = await scene.server.get('deployment', 'netplug-operator', '-n', 'netplug-system');
      expect(old.metadata.annotations['meta.helm.sh/release-namespace']).toBe('default');

      await must('upgrade apply --yes --with delete-records');
      expect(await chartRecords()).toEqual(['netplug-system/sh.helm.release.v1.calico.v1']);
      await must('upgrade verify');
    },
    400_000,
  );

  it.runIf(OTHERS)(
    'prepares host endpoints for all interfaces when it begins before v3.14, and restores them [up-hostendpoints]',
    async () => {
      const never = new AbortController().signal;
      await installOld(RELEASE_MANIFESTS[0], 'v3.13.5');
      const labels = { role: 'gateway' };
      await scene.store.createResource(hostEndpointOf('all', 'node-a', { labels }), never);
      const [before] = (await scene.store.listResources('HostEndpoint', never)).resources;
      const refused = await ctl('upgrade preflight');
      expect(refused).toMatchObject({ status: 1 });
      expect(refused.stdout).toContain('host-endpoints/unprepared');
      expect(await ctl('upgrade apply --yes')).toMatchObject({ status: 69 });
      await must('upgrade apply --yes --accept host-endpoints/unprepared');
      const [marked] = (await scene.store.listResources('HostEndpoint', never)).resources;
      expect(marked?.metadata.labels).toEqual({ ...labels, 'netplug/host-endpoint-upgrade': '' });
      const policy = { kind: 'GlobalNetworkPolicy', name: 'allow-all-upgrade' } as const;
      expect((await scene.store.findResource(policy, never))?.spec.selector).toBe('has(netplug/host-endpoint-upgrade)');

      await must('upgrade rollback --yes');
      const [restored] = (await scene.store.listResources('HostEndpoint', never)).resources;
      expect(restored?.metadata.labels).toEqual(labels);
      expect(restored?.spec).toEqual(before?.spec);
      expect(await scene.store.findResource(policy, never)).toBeUndefined();

      await scene.store.deleteResource({ kind: 'HostEndpoint', name: 'all' }, never);
      const late = await ctl('upgrade rollback --yes');
      expect(late).toMatchObject({
        status: 69,
        stderr: expect.stringContaining('HostEndpoint "all" has been replaced') as string,
      });
    },
    400_000,
  );

  it('finds ten hazards that are there at once', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    const never = new AbortController().signal;
    await scene.server.kubectl('cordon', 'node-c');
    const notReady = { status: { conditions: [{ type: 'Ready', status: 'False', reason: 'KubeletNotReady' }] } };
    await scene.server.kubectl(
      'patch',
      'node',
      'node-b',
      '--subresource=status',
      '--type=merge',
      `--patch=${JSON.stringify(notReady)}`,
    );
    const inSystem = ['-n', 'netplug-system'];
    await scene.server.kubectl(
      'annotate',
      'daemonset',
      'netplug-node',
      ...inSystem,
      'argocd.argoproj.io/tracking-id=netplug:apps',
    );
    const edit = { spec: { minReadySeconds: 77 } };
    await scene.server.kubectl(
      'patch',
      'daemonset',
      'netplug-node',
      ...inSystem,
      '--type=merge',
      `--patch=${JSON.stringify(edit)}`,
      '--field-manager=kubectl-edit',
    );
    await scene.server.apply([
      webhook('deny.policy.example'),
      {
        apiVersion: 'v1',
        kind: 'Secret',
        type: 'helm.sh/release.v1',
        metadata: { name: 'sh.helm.release.v1.broken.v1', namespace: 'netplug-system', labels: { owner: 'helm' } },
        stringData: { release: 'not a release' },
      },
    ]);
    await scene.store.createResource(poolOf('wide', '172.20.0.0/24'), never);
    await scene.store.createResource(hostEndpointOf('all', 'node-a'), never);
    await scene.server.kubectl(
      'patch',
      'clusterinformation',
      'default',
      '--type=merge',
      '--patch={"spec":{"datastoreReady":false}}',
    );
    const limited = await scene.server.kubeconfigFor(await limitedToken());
    scene.env = { ...scene.env, KUBECONFIG: limited };
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
    expect(scene.rollout.started.every(({ release }) => release === OLD)).toBe(true);
  });

  it('backs up without changing anything, and detects a damaged backup', async () => {
    await installOld(RELEASE_MANIFESTS[0]);
    const backup = join(scene.folder, 'backup');
    expect(await must(`upgrade backup --to ${backup}`)).toContain('every checksum matches');
    expect(await must(`upgrade backup --check ${backup}`)).toContain(`release ${OLD}`);
    const file = join(backup, 'objects.json');
    await writeFile(file, (await readFile(file, 'utf8')).replace('netplug-node', 'netplug-unknown'));
    expect(await ctl(`upgrade backup --check ${backup}`)).toMatchObject({
      status: 65,
      stderr: expect.stringContaining('checksum of objects.json') as string,
    });
    expect(await ctl(`upgrade rollback --yes --from ${backup}`)).toMatchObject({ status: 65 });
  });
});

/** Reads everything that a plan needs, and writes nothing but a dry run of workloads. */
async function limitedToken(): Promise<string> {
  const token = await scene.server.tokenFor('default/limited');
  const rules = [
    { apiGroups: ['*'], resources: ['*'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['apps'], resources: ['daemonsets'], verbs: ['patch'] },
  ];
  const subjects = [{ kind: 'ServiceAccount', name: 'limited', namespace: 'default' }];
  await scene.server.apply([
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
