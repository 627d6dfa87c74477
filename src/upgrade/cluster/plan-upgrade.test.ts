import { describe, expect, it } from 'vitest';
import { SOUND_MESH } from '../../../test/support/mesh-facts.ts';
import { NEW, OLD, type SoundCluster, soundCluster, targetFor } from '../../../test/support/sound-cluster.ts';
import type { InjectorFacts } from '../../checks/mesh-checks.ts';
import { BIRD_SET, imageNames } from '../../install/cluster/names.ts';
import { operatorObjects } from '../../install/cluster/operator-deployment.ts';
import type { HostEndpoint } from '../../model/host-endpoint.ts';
import { isNetplugError } from '../../base/errors.ts';
import { upgradePlan } from '../../apps/ctl/upgrade/upgrade-acts.ts';
import { detectInstallation } from './detect-installation.ts';
import { metadataIn } from './objects-in.ts';
import { isAtTarget } from './plan-upgrade.ts';
import { renderUpgradePlan } from './render-upgrade.ts';
import type { ChartRelease, ClusterSnapshot } from './snapshot.ts';
import type { UpgradeTarget } from './target.ts';
import type { UpgradePlan, UpgradeStepData } from './upgrade-action.ts';

const CHART: ChartRelease = {
  name: 'calico',
  namespace: 'default',
  revision: 3,
  status: 'deployed',
  chart: 'netplug',
  version: 'v3.22.1',
  values: {},
  record: 'sh.helm.release.v1.calico.v3',
};
const ALL_INTERFACES: HostEndpoint = {
  apiVersion: 'netplug.io/v3',
  kind: 'HostEndpoint',
  metadata: { name: 'node-1-all' },
  spec: { node: 'node-1', interfaceName: '*' },
};

const stepsOf = (plan: UpgradePlan): readonly UpgradeStepData[] =>
  plan.stages.flatMap(({ steps }) => steps.flatMap((step) => (step.kind === 'wait' ? [] : [step])));
const idsOf = (plan: UpgradePlan): readonly string[] => stepsOf(plan).map(({ id }) => id);
const withOperator = (snapshot: ClusterSnapshot, release: string): ClusterSnapshot => ({
  ...snapshot,
  objects: [...snapshot.objects, ...operatorOf(release)],
});
const operatorOf = (release: string) =>
  operatorObjects({ release, images: { ...imageNames(release), pullSecrets: [] }, replicas: 1, override: {} });
const targetWithOperator = (cluster: SoundCluster = {}): UpgradeTarget => ({
  ...targetFor(cluster),
  operator: operatorOf(NEW),
});

describe('the plan of an upgrade', () => {
  it('backs up first, tries one node before the others, and verifies, for a manifest [up-manifest]', () => {
    const plan = upgradePlan(soundCluster(), targetFor());
    expect(idsOf(plan)).toEqual([
      'back-up',
      'apply-definitions',
      'apply-rights',
      'apply-admission',
      'apply-configuration',
      'apply-controllers',
      'canary',
      'roll-out',
      'verify',
      'tool',
    ]);
    expect(stepsOf(plan).every(({ isDone }) => !isDone)).toBe(true);
  });

  it('replaces the servers of the fan-out before the agents that use them, and waits for them [up-manifest]', () => {
    const cluster = { spec: { typha: { mode: 'Enabled' } } } as const;
    expect(idsOf(upgradePlan(soundCluster(cluster), targetFor(cluster))).slice(-6)).toEqual([
      'apply-controllers',
      'apply-typha',
      'canary',
      'roll-out',
      'verify',
      'tool',
    ]);
  });

  it('switches the fan-out of a release on and off, and removes last what only the other needs', () => {
    const cluster = { spec: { typha: { mode: 'Enabled' } } } as const;
    const pruned = (plan: UpgradePlan): readonly string[] =>
      stepsOf(plan).flatMap((step) =>
        step.act === 'prune' ? step.objects.map(({ kind, name }) => `${kind} ${name}`) : [],
      );
    const on = upgradePlan(soundCluster({ release: NEW }), targetFor(cluster));
    expect(idsOf(on).slice(-6)).toEqual(['apply-typha', 'canary', 'roll-out', 'prune', 'verify', 'tool']);
    expect(pruned(on)).toEqual(['ClusterRole netplug-agent-datastore', 'ClusterRoleBinding netplug-agent-datastore']);
    expect(stepsOf(on).filter(({ isDone }) => isDone)).toEqual([]);

    const off = upgradePlan(soundCluster({ ...cluster, release: NEW }), targetFor());
    expect(idsOf(off).slice(-5)).toEqual(['canary', 'roll-out', 'prune', 'verify', 'tool']);
    expect(pruned(off)).toEqual(
      expect.arrayContaining([
        'PodDisruptionBudget netplug-typha',
        'Deployment netplug-typha',
        'Role netplug-agent-servers',
      ]),
    );
    expect(isAtTarget(soundCluster({ ...cluster, release: NEW }), targetFor(cluster))).toBe(true);
  });

  it('marks every step done at the target version', () => {
    const plan = upgradePlan(soundCluster({ release: NEW }), targetFor());
    expect(idsOf(plan)).toContain('canary');
    expect(stepsOf(plan).filter(({ isDone }) => !isDone)).toEqual([]);
    expect(renderUpgradePlan(plan, detectInstallation(soundCluster({ release: NEW })), targetFor())).not.toContain(
      'to do',
    );
  });

  it('applies the operator in place of the specified replace, and waits for it [up-operator]', () => {
    const plan = upgradePlan(withOperator(soundCluster(), OLD), targetWithOperator());
    expect(idsOf(plan)).toEqual([
      'back-up',
      'apply-definitions',
      'apply-operator',
      'operator-rollout',
      'verify',
      'tool',
    ]);
  });

  it('has the operator hold the agents while one node is tried', () => {
    const installation = { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' }, spec: {} };
    const sound = withOperator(soundCluster(), OLD);
    const snapshot = { ...sound, objects: [...sound.objects, installation] };
    const rollOut = ['canary', 'operator-rollout', 'verify', 'tool'];
    expect(idsOf(upgradePlan(snapshot, targetWithOperator()))).toEqual([
      'back-up',
      'hold-agents',
      'apply-definitions',
      'apply-operator',
      ...rollOut,
    ]);
    const chart = { ...CHART, namespace: 'netplug-system', version: 'v3.26.4' };
    expect(idsOf(upgradePlan({ ...snapshot, charts: [chart] }, targetWithOperator()))).toEqual([
      'back-up',
      'apply-definitions',
      'hold-agents',
      'chart',
      ...rollOut,
    ]);
    const cordoned = { ...snapshot, nodes: snapshot.nodes.map((node) => ({ ...node, isSchedulable: false })) };
    expect(idsOf(upgradePlan(cordoned, targetWithOperator()))).toContain('hold-agents');
    const down = { ...snapshot, nodes: snapshot.nodes.map((node) => ({ ...node, isReady: false })) };
    expect(idsOf(upgradePlan(down, targetWithOperator()))).not.toContain('hold-agents');
  });

  it('is done with BIRD of an older release, which nothing replaces by itself, and says how to replace it', () => {
    const cluster = { spec: { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16', encapsulation: 'None' }] } } } as const;
    const done = soundCluster({ ...cluster, release: NEW });
    const pods = done.pods.map((pod) =>
      pod.component === BIRD_SET ? { ...pod, images: pod.images.map((image) => image.replace(NEW, OLD)) } : pod,
    );
    expect(pods).not.toEqual(done.pods);
    expect(isAtTarget({ ...done, pods }, targetFor(cluster))).toBe(true);
    expect(detectInstallation({ ...done, pods }).from).toBe(NEW);
    expect(idsOf(upgradePlan({ ...done, pods }, targetFor(cluster)))).toContain('replace-bird');
    expect(idsOf(upgradePlan(done, targetFor(cluster)))).not.toContain('replace-bird');
  });

  it('is done while a pod of an older release that was evicted is kept', () => {
    const done = soundCluster({ release: NEW });
    const [pod] = soundCluster().pods;
    const withPod = (phase: 'failed' | 'running') => ({ ...done, pods: [...done.pods, { ...pod!, phase }] });
    expect(isAtTarget(withPod('failed'), targetFor())).toBe(true);
    expect(isAtTarget(withPod('running'), targetFor())).toBe(false);
  });

  it('is not done as long as a stopped upgrade holds the agents', () => {
    const done = soundCluster({ release: NEW });
    const note = {
      kind: 'Namespace',
      metadata: { name: 'netplug-system', annotations: { 'netplug.io/upgrade-canary': NEW } },
    };
    const onDelete = done.objects.map((object) =>
      object['kind'] === 'DaemonSet'
        ? { ...object, spec: { ...(object['spec'] as object), updateStrategy: { type: 'OnDelete' } } }
        : object,
    );
    const hold = {
      kind: 'Installation',
      metadata: { name: 'default', annotations: { 'netplug.io/hold-agents': NEW } },
    };
    // A user may want it so.
    expect(isAtTarget({ ...done, objects: onDelete }, targetFor())).toBe(true);
    expect(isAtTarget({ ...done, objects: [note, ...onDelete] }, targetFor())).toBe(false);
    expect(isAtTarget({ ...done, objects: [...done.objects, hold] }, targetFor())).toBe(false);
  });

  it('passes ownership on before a chart from before v3.23, and deletes old records only when asked [up-chart-owner] [up-chart-records]', () => {
    const snapshot = { ...withOperator(soundCluster({ release: 'v3.22.1' }), 'v3.22.1'), charts: [CHART] };
    const plan = upgradePlan(snapshot, targetWithOperator());
    const ids = idsOf(plan);
    expect(ids.filter((id) => id.startsWith('pass-on'))).toEqual([
      'pass-on-installation',
      'pass-on-apiserver',
      'pass-on-podsecuritypolicy',
      'pass-on-deployment',
      'pass-on-serviceaccount',
      'pass-on-clusterrole',
      'pass-on-clusterrolebinding',
    ]);
    expect(ids.indexOf('pass-on-clusterrolebinding')).toBeLessThan(ids.indexOf('apply-definitions'));
    expect(ids.indexOf('apply-definitions')).toBeLessThan(ids.indexOf('chart'));
    const chart = stepsOf(plan).find(({ id }) => id === 'chart');
    expect(chart).toMatchObject({ verb: 'install', release: 'calico', namespace: 'netplug-system' });
    const records = stepsOf(plan).find(({ id }) => id === 'delete-records');
    expect(records).toMatchObject({
      isOptional: true,
      objects: [{ kind: 'Secret', namespace: 'default', name: CHART.record }],
    });
    expect(records?.commands).toEqual([
      'kubectl delete secret -n default -l name=calico,owner=helm --dry-run=client',
      'kubectl delete secret -n default -l name=calico,owner=helm',
    ]);
  });

  it('says of objects that a server does not know, or has not, that they are skipped', () => {
    const snapshot = { ...withOperator(soundCluster({ release: 'v3.22.1' }), 'v3.22.1'), charts: [CHART] };
    const steps = upgradePlan(snapshot, targetWithOperator()).stages.flatMap((stage) => stage.steps);
    const text = steps.map((step) => step.text).join('\n');
    expect(text).toContain('skip PodSecurityPolicy "netplug-operator": the API server does not serve this kind');
    expect(text).toContain('skip Installation "default": it does not exist');
  });

  it('upgrades a chart that is in the namespace of the operator [up-chart-crds]', () => {
    const chart = { ...CHART, namespace: 'netplug-system', version: 'v3.26.4' };
    const plan = upgradePlan({ ...withOperator(soundCluster(), OLD), charts: [chart] }, targetWithOperator());
    expect(idsOf(plan)).toEqual(['back-up', 'apply-definitions', 'chart', 'operator-rollout', 'verify', 'tool']);
    expect(stepsOf(plan).find(({ id }) => id === 'chart')).toMatchObject({
      verb: 'upgrade',
      namespace: 'netplug-system',
    });
  });

  it('follows the method that the user names where a record of helm is left over', () => {
    const snapshot = { ...withOperator(soundCluster(), OLD), charts: [CHART] };
    expect(idsOf(upgradePlan(snapshot, targetWithOperator()))).toContain('chart');
    const named: ClusterSnapshot = { ...snapshot, method: 'operator' };
    expect(detectInstallation(named)).toMatchObject({ method: 'operator', chart: undefined });
    expect(idsOf(upgradePlan(named, targetWithOperator()))).toEqual([
      'back-up',
      'apply-definitions',
      'apply-operator',
      'operator-rollout',
      'verify',
      'tool',
    ]);
  });

  it.each<[ClusterSnapshot['method'], ClusterSnapshot, string]>([
    ['operator', soundCluster(), 'there is no Deployment "netplug-operator"'],
    ['chart', soundCluster(), 'no record of helm holds objects of netplug'],
    ['manifest', withOperator(soundCluster(), OLD), 'would put its own objects back'],
  ])('refuses method %s where the cluster does not have it', (method, snapshot, why) => {
    expect(() => detectInstallation({ ...snapshot, ...(method === undefined ? {} : { method }) })).toThrow(why);
  });

  it('prepares host endpoints for all interfaces only from before v3.14, and offers the migration afterwards [up-hostendpoints-order]', () => {
    const withEndpoints = (release: string): ClusterSnapshot => {
      const sound = soundCluster({ release });
      return { ...sound, datastore: { ...sound.datastore, hostEndpoints: [ALL_INTERFACES] } };
    };
    expect(idsOf(upgradePlan(withEndpoints('v3.13.5'), targetFor()))[1]).toBe('prepare-host-endpoints');
    const later = idsOf(upgradePlan(withEndpoints('v3.14.0'), targetFor()));
    expect(later).not.toContain('prepare-host-endpoints');
    expect(later.at(-1)).toBe('migrate-host-endpoints');
  });

  it.each<[string, SoundCluster]>([
    ['policy-and-networking', {}],
    ['second-plugin', { circumstances: { variant: 'second-plugin' } }],
    ['policy-only', { circumstances: { variant: 'policy-only', interfacePrefix: 'eni' } }],
  ])('recognizes the variant %s', (variant, cluster) => {
    expect(detectInstallation(soundCluster(cluster))).toMatchObject({ variant, method: 'manifest', from: OLD });
  });

  it('restarts workloads whose sidecar is older, after the injector template of the mesh [up-sidecar]', () => {
    const sidecars = [
      { kind: 'Deployment', namespace: 'shop', name: 'web', version: OLD },
      { kind: 'Deployment', namespace: 'shop', name: 'new', version: NEW },
      { kind: 'StatefulSet', namespace: 'shop', name: 'web', version: OLD },
      { kind: 'Deployment', namespace: 'shop-a', name: 'b', version: OLD },
      { kind: 'Deployment', namespace: 'shop', name: 'a-b', version: OLD },
    ];
    const ids = idsOf(upgradePlan({ ...soundCluster(), sidecars, mesh: '1.15.3' }, targetFor()));
    expect(ids.slice(-6)).toEqual([
      'injector',
      'sidecars',
      'restart-deployment-shop.web',
      'restart-statefulset-shop.web',
      'restart-deployment-shop-a.b',
      'restart-deployment-shop.a-b',
    ]);
  });

  it('applies the injector template to the control planes that have another one, by their places', () => {
    const sidecars = [{ kind: 'Deployment', namespace: 'shop', name: 'web', version: OLD }];
    const plane = (namespace: string, revision: string | undefined, kind: 'current' | 'missing'): InjectorFacts => ({
      namespace,
      revision,
      name: 'istio-sidecar-injector',
      template: { kind },
    });
    const commands = (injectors: readonly InjectorFacts[], tool = NEW): readonly string[] =>
      upgradePlan({ ...soundCluster(), tool, sidecars, meshState: { ...SOUND_MESH, injectors } }, targetFor())
        .stages.flatMap(({ steps }) => steps)
        .flatMap((step) => (step.kind === 'command' && step.id.startsWith('injector') ? [step.command.join(' ')] : []));
    const current = plane('istio-system', undefined, 'current');
    expect(commands([current])).toEqual([]);
    // The template of another release than the target.
    expect(commands([current], 'v3.99.0')).toEqual(['netplugctl mesh template | kubectl apply -f -']);
    expect(commands([current, plane('istio-system', 'a', 'missing'), plane('mesh', 'b', 'missing')])).toEqual([
      'netplugctl mesh template --revision a | kubectl apply -f -',
      'netplugctl mesh template --mesh-namespace mesh --revision b | kubectl apply -f -',
    ]);
  });

  it('leaves sidecars of unknown release, and of workloads that it cannot restart, to the user', () => {
    const sidecars = [
      { kind: 'Deployment', namespace: 'shop', name: 'pinned', unknownImage: 'x/netplug-sidecar@sha256:0' },
      { kind: 'Rollout.argoproj.io', namespace: 'shop', name: 'own', version: OLD, newest: OLD },
    ];
    const steps = upgradePlan({ ...soundCluster(), sidecars }, targetFor()).stages.flatMap((stage) => stage.steps);
    const texts = steps.filter((step) => step.kind === 'command').map(({ text }) => text);
    expect(texts.filter((text) => text.includes('shop/'))).toEqual([
      'have Deployment shop/pinned get the new sidecar: the image of its sidecar, "x/netplug-sidecar@sha256:0", names no release',
      'have Rollout.argoproj.io shop/own get the new sidecar: how a Rollout.argoproj.io is restarted is not known',
    ]);
    expect(texts).toContain('apply the injector template to the mesh, whose control plane is not in this cluster');
  });

  it('removes objects that the target does not have, but no data of users', () => {
    const sound = soundCluster();
    const labels = { 'app.kubernetes.io/part-of': 'netplug' };
    const leftovers = [
      {
        apiVersion: 'apps/v1',
        kind: 'DaemonSet',
        metadata: { name: 'netplug-old', namespace: 'netplug-system', labels },
      },
      { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata: { name: 'blue', labels } },
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'of-a-user', namespace: 'netplug-system' } },
    ];
    const plan = upgradePlan({ ...sound, objects: [...sound.objects, ...leftovers] }, targetFor());
    expect(stepsOf(plan).find(({ act }) => act === 'prune')).toMatchObject({
      objects: [{ kind: 'DaemonSet', namespace: 'netplug-system', name: 'netplug-old' }],
    });
  });

  it('is the same after the snapshot was saved and read', () => {
    const snapshot = soundCluster();
    expect(upgradePlan(JSON.parse(JSON.stringify(snapshot)), targetFor())).toEqual(upgradePlan(snapshot, targetFor()));
  });

  it('refuses a cluster without netplug', () => {
    const empty = {
      ...soundCluster(),
      objects: soundCluster().objects.filter((object) => metadataIn(object).name === 'netplug-system'),
    };
    expect(() => upgradePlan(empty, targetFor())).toThrow(expect.objectContaining({ code: 'upgrade/not-installed' }));
    expect(isNetplugError(undefined, 'upgrade/not-installed')).toBe(false);
  });
});
