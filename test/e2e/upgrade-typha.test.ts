// The built tool switches the fan-out of an installation by manifest on and off, on a real API server, and goes back.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { manifestText, RELEASE_MANIFESTS, type ReleaseManifest } from '../../src/install/cluster/release-manifests.ts';
import type { Json } from '../support/node.ts';
import { NEW, OLD } from '../support/upgradable-cluster.ts';
import { putServerLease } from '../support/typha-process.ts';
import { ctl, installOld, must, scene, settled, stateOfCluster, useUpgradeScene } from '../support/upgrade-scene.ts';

const MANIFESTS: readonly ReleaseManifest[] = RELEASE_MANIFESTS;
const [WITHOUT, WITH] = ['netplug.yaml', 'netplug-typha.yaml'].map((file) =>
  MANIFESTS.find((each) => each.file === file)!,
);
const OWN = 'deployments,poddisruptionbudgets,serviceaccounts,roles,rolebindings,leases';

useUpgradeScene();

/** Writes the manifest of the new release into a file, as users have it. */
async function fileOf(kind: ReleaseManifest): Promise<string> {
  const file = join(scene.folder, kind.file);
  await writeFile(file, manifestText(kind, { release: NEW }));
  return file;
}

/** What shows whether agents use the fan-out, and what there is of it. */
async function fanOut(): Promise<{ uses: boolean; bindings: readonly string[]; own: readonly string[] }> {
  const agents = await scene.server.get('daemonset', 'netplug-node', '-n', 'netplug-system');
  const { items: bindings } = await scene.server.get('clusterrolebindings');
  const { items: own } = await scene.server.get(OWN, '-n', 'netplug-system');
  const names = (items: readonly { kind: string; metadata: { name: string } }[]): readonly string[] =>
    items.map(({ metadata }) => metadata.name).sort();
  return {
    uses: JSON.stringify(agents.spec.template).includes('NETPLUG_TYPHA'),
    bindings: names(bindings).filter((name) => /^netplug-(agent-|typha)/.test(name)),
    own: own
      .map(({ kind, metadata }: { kind: string; metadata: { name: string } }) => `${kind}/${metadata.name}`)
      .filter((name: string) => name.includes('netplug-typha'))
      .sort(),
  };
}

const OFF = { uses: false, bindings: ['netplug-agent-datastore'], own: [] };
const ON = {
  uses: true,
  bindings: ['netplug-agent-fanned-out', 'netplug-typha'],
  own: [
    'Deployment/netplug-typha',
    'PodDisruptionBudget/netplug-typha',
    'Role/netplug-typha-leases',
    'RoleBinding/netplug-typha-leases',
    'ServiceAccount/netplug-typha',
  ],
};

it('upgrades to the manifest with the fan-out, which later upgrades keep, and undoes it', async () => {
  await installOld(WITHOUT!);
  const before = await stateOfCluster();
  const file = await fileOf(WITH!);
  expect(await must(`upgrade plan --like ${file}`)).toMatch(/apply-typha: [^]*canary: [^]*roll-out: [^]*prune: /);
  await must(`upgrade apply --no-proof --yes --like ${file}`);
  expect(await fanOut()).toEqual(ON);
  expect(await must('upgrade plan')).not.toContain('to do');
  expect(await must('upgrade verify --no-proof')).toContain('Deployment netplug-system/netplug-typha');
  await must('upgrade rollback --yes');
  await settled(OLD);
  expect(await stateOfCluster()).toEqual(before);
  expect(await fanOut()).toEqual(OFF);
}, 400_000);

it('refuses to switch the fan-out within another release than that of the tool', async () => {
  await installOld(WITH!);
  const { status, stderr } = await ctl('cluster typha off --yes');
  expect({ status, stderr }).toEqual({
    status: 69,
    stderr: expect.stringContaining(`the cluster has release ${OLD}, this tool is of ${NEW}`),
  });
}, 120_000);

it('upgrades what has the fan-out with it, and switches it off within a release, with the Leases that servers leave', async () => {
  await installOld(WITH!);
  await must('upgrade apply --no-proof --yes');
  expect(await fanOut()).toEqual(ON);
  // The namespace notes which release was verified last.
  const objects = async () => (await stateOfCluster()).filter((each) => !each.startsWith('{"kind":"Namespace"'));
  const own = await objects();
  await putServerLease(scene.server, 1);
  await must(`upgrade apply --no-proof --yes --like ${await fileOf(WITHOUT!)}`);
  expect(await fanOut()).toEqual(OFF);
  await must('cluster typha on --no-proof --yes');
  expect(await fanOut()).toEqual(ON);
  await putServerLease(scene.server, 1);
  expect(await must('cluster typha off --dry-run')).toMatch(/canary: [^]*prune: /);
  expect((await fanOut()).uses).toBe(true);
  await must('cluster typha off --no-proof --yes');
  expect(await fanOut()).toEqual(OFF);
  await must('upgrade rollback --yes');
  await settled(NEW);
  expect(await fanOut()).toEqual(ON);
  expect(await objects()).toEqual(own);
  await putServerLease(scene.server, 1);
  await must('uninstall cluster --yes');
  const { items } = await scene.server.get(OWN, '-n', 'netplug-system');
  // The Lease is that of the tool.
  expect(items.map(({ kind, metadata }: Json) => `${kind}/${metadata.name}`)).toEqual([
    'ServiceAccount/netplug-cni',
    'Lease/netplug-upgrade',
  ]);
}, 600_000);
