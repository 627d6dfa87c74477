import { describe, expect, it } from 'vitest';
import { hostEndpointOf } from '../../../../test/support/fixtures.ts';
import { NEW, OLD, soundCluster } from '../../../../test/support/sound-cluster.ts';
import { newCluster } from '../../../datastore/keep-cluster-information.ts';
import { imageNames, OPERATOR } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { operatorObjects } from '../../../install/cluster/operator-deployment.ts';
import { objectName, referenceKey } from '../../../kube/objects/reference.ts';
import type { ClusterInformation } from '../../../model/cluster-information.ts';
import { HOLD_AGENTS, type InstallationSpec } from '../../../model/installation.ts';
import { never } from '../../../base/errors.ts';
import { isEmpty, type Plan } from '../../../plans/plan.ts';
import { metadataIn } from '../../../upgrade/cluster/objects-in.ts';
import type { Backup } from './backup.ts';
import { objectsToPutBack, planRollback, type RollbackFacts } from './plan-rollback.ts';
import { UPGRADE_NAMES } from './read-records.ts';
import type { RollbackAct } from './rollback-acts.ts';

const { label } = UPGRADE_NAMES;
const ON: InstallationSpec = { typha: { mode: 'Enabled' } };
const OLD_PODS = soundCluster().pods;
const DEPLOYMENT = { kind: 'Deployment', namespace: 'shop' };
const READY = { observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3 };
const FILTER = {
  apiVersion: 'networking.istio.io/v1alpha3',
  kind: 'EnvoyFilter',
  namespace: 'istio-system',
  name: 'netplug',
};
const NO_MESH = { filters: [], foreign: [], pods: new Map<string, number>(), templates: [], sidecars: [] };
const [KEPT, DELETED, CREATED] = ['kept', 'deleted', 'created'].map((name) => named('Secret', name));

function named(kind: string, name: string, more: object = {}): Manifest {
  return { apiVersion: 'v1', kind, metadata: { name, namespace: 'netplug-system', ...more } };
}

function clusterOf(netplugVersion: string): ClusterInformation {
  return { ...newCluster(), spec: { datastoreReady: true, netplugVersion } };
}

/** Gives workloads the status of those that have rolled out. */
function rolledOut(object: Manifest): Manifest {
  const isWorkload = object['kind'] === 'DaemonSet' || object['kind'] === 'Deployment';
  const { spec } = object as { readonly spec?: object };
  const [metadata, replicas] = [
    { ...(object['metadata'] as object), generation: 1 },
    { spec: { ...spec, replicas: 3 } },
  ];
  const status = { ...READY, updatedReplicas: 3, availableReplicas: 3 };
  if (!isWorkload) return object;
  return object['kind'] === 'DaemonSet'
    ? { ...object, metadata, status }
    : { ...object, metadata, ...replicas, status: { ...status, desiredNumberScheduled: undefined } };
}

/** The objects of a release by manifest, with an operator and its Installation as well. */
function objectsOf(release: string, edit: (object: Manifest) => Manifest, spec: InstallationSpec) {
  const images = { ...imageNames(release), pullSecrets: [] };
  const operator = operatorObjects({ release, images, replicas: 1, override: {} }).filter(
    ({ kind }) => kind !== 'Namespace',
  );
  const held = { annotations: { [HOLD_AGENTS]: NEW } };
  const installation = { ...named('Installation', 'default', release === NEW ? {} : held), spec: { release } };
  // A backup leaves the definitions out.
  const objects = soundCluster({ release, spec }).objects.filter(({ kind }) => kind !== 'CustomResourceDefinition');
  return [...objects, ...operator, installation].map(rolledOut).map(edit);
}

function backupOf(edit: (object: Manifest) => Manifest, spec: InstallationSpec = {}): Backup {
  return {
    header: {
      format: 'netplug-backup/1',
      at: '2026-11-25T12:00:00Z',
      by: NEW,
      from: OLD,
      to: NEW,
      method: 'operator',
      applied: ['ConfigMap netplug-system/of-the-release'],
    },
    objects: objectsOf(OLD, edit, spec),
    charts: [KEPT!, DELETED!],
    records: {
      checksum: '',
      counts: { resources: {}, blocks: 0, addresses: 0, endpoints: 0 },
      cluster: clusterOf(OLD),
      resources: [hostEndpointOf('all', 'node-1', { labels: { role: 'gateway' } })],
      blocks: [],
      endpoints: [],
    } as unknown as Backup['records'],
  };
}

function upgraded(edit: (object: Manifest) => Manifest, spec: InstallationSpec = {}): RollbackFacts {
  return {
    objects: [...objectsOf(NEW, edit, spec), named('ConfigMap', 'of-the-release'), named('ConfigMap', 'of-a-user')],
    pods: soundCluster({ release: NEW, spec }).pods,
    charts: [KEPT!, CREATED!],
    hostEndpoints: [hostEndpointOf('all', 'node-1', { labels: { role: 'gateway', [label]: '' } })],
    hasPolicy: true,
    cluster: clusterOf(NEW),
    mesh: { ...NO_MESH, filters: [FILTER] },
    folder: '/backups/b',
  };
}

const stepsOf = (plan: Plan<RollbackAct>) =>
  plan.stages.flatMap(({ steps }) => steps).filter((step) => step.kind === 'write');

/** Returns the cluster after a step. `half`: it is killed when it has written an object, and before it has waited. */
function after(facts: RollbackFacts, step: RollbackAct, backup: Backup, extent: 'half' | 'whole'): RollbackFacts {
  const without = (key: string) => ({
    objects: facts.objects.filter((each) => objectName(each) !== key),
    charts: facts.charts.filter((each) => objectName(each) !== key),
  });
  if (extent === 'half' && step.act !== 'replace-agents') return facts;
  switch (step.act) {
    case 'put-back':
    case 'replace-agents': {
      const key = referenceKey(step.object);
      const left = without(key);
      if (step.object.kind === 'Secret')
        return { ...facts, charts: [...left.charts, named('Secret', step.object.name)] };
      const object = objectsToPutBack(backup).find((each) => objectName(each) === key)!;
      const isRolling = step.act === 'replace-agents' && extent === 'half';
      const updateStrategy = { type: 'RollingUpdate' };
      const put = isRolling ? { ...object, spec: { ...(object['spec'] as object), updateStrategy } } : object;
      const changed = { ...facts, objects: [...left.objects, put] };
      return step.act === 'put-back' || isRolling ? changed : withOldPods(changed, step.object.name);
    }
    case 'await-release':
      return withOldPods(facts, step.object.name);
    case 'delete':
      if (step.objects[0] === FILTER) return { ...facts, mesh: NO_MESH };
      return { ...facts, ...without(referenceKey(step.objects[0]!)) };
    case 'restore-label':
      return { ...facts, hostEndpoints: [hostEndpointOf('all', 'node-1', { labels: { role: 'gateway' } })] };
    case 'delete-policy':
      return { ...facts, hasPolicy: false };
    case 'restore-version':
      return { ...facts, cluster: clusterOf(step.version) };
    default:
      return never(step);
  }
}

function withOldPods(facts: RollbackFacts, component: string): RollbackFacts {
  const old = OLD_PODS.filter((pod) => pod.component === component);
  return { ...facts, pods: [...facts.pods.filter((pod) => pod.component !== component), ...old] };
}

const byHand = (object: Manifest): Manifest =>
  metadataIn(object).name === 'netplug-node' && object['kind'] === 'DaemonSet'
    ? { ...object, spec: { ...(object['spec'] as object), updateStrategy: { type: 'OnDelete' } } }
    : object;

describe('the plan of a rollback', () => {
  it.each([
    ['by themselves', (object: Manifest) => object],
    ['only by hand', byHand],
  ])('leads to the backup wherever it is killed and planned anew, with agents replaced %s', (_, edit) => {
    const backup = backupOf(edit);
    const steps = stepsOf(planRollback(backup, upgraded(edit)));
    expect(new Set(steps.map(({ act }) => act)).size).toBe(edit === byHand ? 7 : 6);
    for (let done = 0; done <= steps.length; done += 1) {
      let facts = upgraded(edit);
      for (const step of steps.slice(0, done)) facts = after(facts, step, backup, 'whole');
      if (steps[done] !== undefined) facts = after(facts, steps[done]!, backup, 'half');
      for (const step of stepsOf(planRollback(backup, facts))) facts = after(facts, step, backup, 'whole');
      expect(planRollback(backup, facts).stages).toEqual([]);
      const wanted = [...objectsToPutBack(backup), named('ConfigMap', 'of-a-user')];
      expect([...facts.objects].map(objectName).sort()).toEqual(wanted.map(objectName).sort());
      expect(facts.charts.map(objectName).sort()).toEqual(backup.charts.map(objectName).sort());
      expect(facts.pods.every(({ images }) => images.every((image) => image.endsWith(OLD)))).toBe(true);
    }
  });

  it('waits for the operator of the backup before it puts back what the newer one would undo', () => {
    const acts = stepsOf(
      planRollback(
        backupOf((object) => object),
        upgraded((object) => object),
      ),
    );
    const at = acts.findIndex((step) => step.act === 'await-release' && step.object.name === OPERATOR);
    const kinds = (steps: readonly RollbackAct[]) =>
      steps.flatMap((step) => (step.act === 'put-back' ? [step.object.kind] : []));
    expect(kinds(acts.slice(0, at))).not.toContain('Installation');
    expect(kinds(acts.slice(at))).toEqual(expect.arrayContaining(['Installation', 'Deployment', 'DaemonSet']));
  });

  it.each<[string, InstallationSpec, InstallationSpec, readonly string[]]>([
    [
      'after agents that use them',
      ON,
      ON,
      ['put-back agents', 'await-release agents', 'put-back servers', 'await-release servers'],
    ],
    [
      'before agents that do not yet',
      ON,
      {},
      ['put-back servers', 'await-release servers', 'put-back agents', 'await-release agents'],
    ],
    ['not where the backup has none', {}, ON, ['put-back agents', 'await-release agents']],
  ])('puts the servers of the fan-out back %s', (_, before, now, order) => {
    const same = (object: Manifest): Manifest => object;
    const names: Readonly<Record<string, string>> = { 'netplug-node': 'agents', 'netplug-typha': 'servers' };
    const acts = stepsOf(planRollback(backupOf(same, before), upgraded(same, now))).flatMap((step) => {
      const which = step.act === 'put-back' || step.act === 'await-release' ? step.object : undefined;
      const isWorkload = which?.kind === 'DaemonSet' || which?.kind === 'Deployment';
      return isWorkload && names[which.name] !== undefined ? [`${step.act} ${names[which.name]!}`] : [];
    });
    expect(acts).toEqual(order);
  });

  it.each([
    ['have rolled out', 'Wait for the workloads', (object: Manifest) => object],
    ['are replaced by hand', 'Replace the agents', byHand],
  ])('takes the filter of the mesh away right after agents that %s', (_, stage, edit) => {
    const { stages } = planRollback(backupOf(edit), upgraded(edit));
    const at = stages.findIndex(({ title }) => title === 'Mesh');
    expect(stages[at]).toMatchObject({ steps: [{ act: 'delete', objects: [FILTER] }] });
    expect(stages[at - 1]).toMatchObject({ title: stage });
  });

  it('says when the mesh could not be read', () => {
    const backup = backupOf((object) => object);
    const facts = upgraded((object) => object);
    const unread = planRollback(backup, { ...facts, mesh: { unread: 'pods is forbidden' } });
    expect(stepsOf(unread)[0]).toMatchObject({ act: 'put-back' });
    expect(unread.notes[1]).toMatch(/^not known: .*pods is forbidden/);
  });

  it('is empty for a cluster as in the backup, and names its release and time', () => {
    const backup = backupOf((object) => object);
    const { objects, charts, records } = backup;
    const same = {
      objects: objectsToPutBack({ ...backup, objects }),
      charts,
      pods: soundCluster().pods,
      hasPolicy: false,
    };
    const plan = planRollback(backup, {
      ...same,
      hostEndpoints: [hostEndpointOf('all', 'node-1', { labels: { role: 'gateway' } })],
      cluster: records.cluster,
      mesh: NO_MESH,
      folder: '/backups/b',
    });
    expect(isEmpty(plan)).toBe(true);
    expect(plan.notes).toEqual([`back from ${NEW} to ${OLD}, as backed up at 2026-11-25T12:00:00Z`]);
  });

  it('takes nothing of the mesh away where the release has sidecars, and names workloads with a newer one', () => {
    const older = backupOf((object) => object);
    const backup = { ...older, header: { ...older.header, from: NEW } };
    const facts = upgraded((object) => object);
    const of = (name: string, version: string, newest: string) => ({ ...DEPLOYMENT, name, version, newest });
    const sidecars = [of('old', OLD, NEW), of('mixed', NEW, 'v3.27.1')];
    const plan = planRollback(backup, { ...facts, mesh: { ...NO_MESH, filters: [FILTER], sidecars } });
    expect(plan.notes.filter((note) => note.startsWith('hazard: '))).toEqual([
      expect.stringMatching(/^hazard: netplug-sidecar v3\.27\.1 of Deployment shop\/mixed is newer/),
    ]);
    expect(plan.stages).toEqual(planRollback(backup, { ...facts, mesh: NO_MESH }).stages);
    expect(JSON.stringify(plan.stages)).not.toMatch(/EnvoyFilter|istio/);
  });
});
