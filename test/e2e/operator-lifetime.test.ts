import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterObjects } from '../../src/install/cluster/cluster-objects.ts';
import { textOf } from '../../src/install/cluster/release-manifests.ts';
import type { ClusterSettings } from '../../src/install/cluster/settings.ts';
import { settingsOf } from '../../src/install/cluster/settings-of.ts';
import {
  IN_NAMESPACE,
  installationIn,
  launchOperator,
  type OperatorCluster,
  DEPLOYED_MS,
  type RunningOperator,
  SERVES,
  startOperatorCluster,
} from '../support/operator.ts';
import { until } from '../support/until.ts';

const manifestFile = (settings: ClusterSettings): string =>
  textOf(
    clusterObjects(settings).flatMap(({ objects }) => objects),
    [],
  );

const scope = new AsyncDisposableStack();
let cluster: OperatorCluster;
let operator: RunningOperator;

beforeAll(async () => {
  cluster = scope.use(await startOperatorCluster(2));
}, 240_000);
afterAll(async () => scope.disposeAsync());

const { install, status, condition, become, generation, node } = installationIn(
  () => cluster.api,
  () => operator.log(),
);

/** Those of the agent on each node, which must not be replaced. */
async function agents(): Promise<readonly string[]> {
  const { items } = await cluster.api.get('pods', IN_NAMESPACE, '--selector=app.kubernetes.io/name=netplug-node');
  return items.map(({ metadata }: { metadata: { uid: string } }) => metadata.uid).sort();
}

/** UIDs of pods, without those that an earlier change of their workload has told to end. */
async function stayingPods(): Promise<readonly string[]> {
  const { items } = await cluster.api.get('pods', IN_NAMESPACE);
  return (items as { metadata: { uid: string; deletionTimestamp?: string } }[])
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map(({ metadata }) => metadata.uid)
    .sort();
}

describe('the operator', () => {
  it('adopts an installation by manifest without a restart of pods, and lists fields that will be lost first', async () => {
    const manifest = manifestFile(
      settingsOf(
        { node: { env: { OF_THE_MANIFEST: '1' } }, calicoNetwork: { bgp: 'Enabled' } },
        {
          release: 'v3.27.0',
          variant: 'policy-and-networking',
          datastore: { type: 'orch' },
          defaultPools: [{ cidr: '10.44.0.0/16' }],
          nodes: 2,
        },
      ),
    );
    const file = join(cluster.api.dir, 'manifest.yaml');
    await writeFile(file, manifest);
    const apply = async (): Promise<string> =>
      cluster.api.kubectl('apply', '--server-side', '--force-conflicts', `--filename=${file}`);
    // Pools are refused until their definition is established.
    await apply().catch(async () => apply());
    await until(async () => (await agents()).length === 2, 'agents run', DEPLOYED_MS, 250);
    await cluster.api.kubectl(
      'set',
      'env',
      'deployment/netplug-orch-controllers',
      'NETPLUG_ORCHCONFIG=/mine',
      IN_NAMESPACE,
    );
    await cluster.api.kubectl('label', 'daemonset', 'netplug-node', 'team=a', IN_NAMESPACE);
    const before = await agents();

    operator = scope.use(await launchOperator('operator-1', cluster.kubeconfig));
    await install({ node: { env: { OF_THE_MANIFEST: '1' } }, calicoNetwork: { bgp: 'Enabled' } });
    await become(SERVES);
    expect(await agents()).toEqual(before);
    const { warnings, computed } = await status();
    expect(warnings?.join('\n')).toMatch(
      /Deployment netplug-system\/netplug-orch-controllers are taken over: .*NETPLUG_ORCHCONFIG.*"in-cluster" \(string\) in place of "\/mine"/,
    );
    expect(
      (await cluster.api.get('events', '--field-selector=reason=NetplugFieldsTakenOver')).items.length,
    ).toBeGreaterThan(0);
    expect(computed).toMatchObject({ calicoNetwork: { ipPools: [{ cidr: '10.44.0.0/16', name: 'default-ipv4' }] } });
    expect((await cluster.api.get('ippool', 'default-ipv4')).metadata.labels).toMatchObject({
      'app.kubernetes.io/managed-by': 'netplug-operator',
    });
    // What a user has added and the operator does not render stays.
    expect((await node()).metadata.labels).toMatchObject({ team: 'a' });
  }, 180_000);

  it('removes what only the manifest had, once the spec no longer contains it', async () => {
    await install({});
    await become(SERVES, await generation());
    expect(JSON.stringify((await node()).spec)).not.toContain('OF_THE_MANIFEST');
    expect((await cluster.api.get('daemonset', IN_NAMESPACE)).items).toHaveLength(1);
  });

  it('leaves everything running when the installation is deleted, and takes it up again without a restart of pods', async () => {
    const before = await stayingPods();
    await cluster.api.kubectl('delete', 'installation', 'default', '--timeout=60s');
    await new Promise((resolve) => setTimeout(resolve, 3000));
    expect((await node()).metadata.deletionTimestamp).toBeUndefined();
    await install({});
    await become(SERVES);
    expect(await stayingPods()).toEqual(before);
  });

  it('takes down controllers, agents, nodes, conflist and rights in that order with deletionPolicy Remove', async () => {
    await install({ deletionPolicy: 'Remove' });
    await become(SERVES, await generation());
    expect((await cluster.api.get('installation', 'default')).metadata.finalizers).toEqual(['netplug.io/operator']);
    cluster.kubelets.failOn('n1', 'ErrImagePull');
    await cluster.api.kubectl('delete', 'installation', 'default', '--wait=false');
    await until(
      async () => (await condition('Progressing')).message.includes('node "n1"'),
      'it waits for node n1',
      DEPLOYED_MS,
      250,
    );
    expect(await condition('Progressing')).toMatchObject({
      status: 'True',
      reason: 'Removing',
      message: expect.stringContaining('Nodes are being cleaned') as string,
    });
    expect((await cluster.api.get('deployment', IN_NAMESPACE)).items).toEqual([]);
    expect(
      (await cluster.api.get('daemonset', IN_NAMESPACE)).items.map(
        (each: { metadata: { name: string } }) => each.metadata.name,
      ),
    ).toEqual(['netplug-cleanup']);
    await cluster.api.get('clusterrole', 'netplug-cni-reader');
    cluster.kubelets.failOn('n1', undefined);
    await until(
      async () => (await cluster.api.get('installation')).items.length === 0,
      () => `it is gone:\n${operator.log().slice(-3000)}`,
      DEPLOYED_MS,
      250,
    );
    const left = await cluster.api.get('daemonset,deployment,configmap,serviceaccount,role,rolebinding', IN_NAMESPACE);
    expect(
      left.items
        .map(({ kind, metadata }: { kind: string; metadata: { name: string } }) => `${kind}/${metadata.name}`)
        .sort(),
    ).toEqual([
      'Role/netplug-operator-namespace',
      'RoleBinding/netplug-operator-namespace',
      'ServiceAccount/netplug-operator',
    ]);
    expect((await cluster.api.get('clusterrole', '--selector=app.kubernetes.io/part-of=netplug')).items).toHaveLength(
      1,
    );
    await cluster.api.get('ippool', 'default-ipv4');
  }, 240_000);
});
