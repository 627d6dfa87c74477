import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, machineIn } from '../../../../test/support/ctl.ts';
import { soundCluster } from '../../../../test/support/sound-cluster.ts';
import { sha256Of } from '../../../base/sha256.ts';
import { filePlanRecords, readPlanRecord } from '../../../plans/plan-records.ts';
import { readBackup } from './backup.ts';
import { decodeRecord } from './read-charts.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-formats-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

/** Writes a backup with these texts, and its checksums. */
async function writeTexts(changed: Readonly<Record<string, string>>): Promise<void> {
  const empty = {
    'backup.json': '{}',
    'snapshot.json': '{}',
    'objects.json': '[]',
    'charts.json': '[]',
    'records.json': '{}',
  };
  const texts = { ...empty, ...changed };
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text);
  const sums = Object.entries(texts).map(([name, text]) => `${sha256Of(text)}  ${name}\n`);
  await writeFile(join(folder, 'SHA256SUMS'), sums.join(''));
}

describe('a file of a newer release', () => {
  it('is left alone when it records a plan', async () => {
    const [file, text] = [join(folder, 'upgrade.json'), '{"format":2,"what":"is new"}\n'];
    await writeFile(file, text);
    await expect(readPlanRecord(filePlanRecords(folder), 'upgrade')).rejects.toMatchObject({
      code: 'cli/version-mismatch',
    });
    expect(await readFile(file, 'utf8')).toBe(text);
  });

  it('is refused when it is a snapshot, and one of this release is read without a cluster', async () => {
    const file = join(folder, 'snapshot.json');
    const machine = machineIn(folder);
    await writeFile(file, JSON.stringify(soundCluster()));
    const plan = await callCtl(['upgrade', 'plan', '--from', file], { machine });
    expect(plan).toMatchObject({ status: 0 });
    expect(plan.out).toContain('Upgrade from v3.26.4 to v3.27.0');
    const sarif = await callCtl(['upgrade', 'preflight', '--from', file, '-o', 'sarif'], { machine });
    expect(JSON.parse(sarif.out)).toMatchObject({ runs: [{ results: [] }] });
    await writeFile(file, JSON.stringify({ ...soundCluster(), format: 3 }));
    const newer = await callCtl(['upgrade', 'plan', '--from', file], { machine });
    expect(newer).toMatchObject({ status: 64 });
    expect(newer.err).toContain('its format is 3, this release reads 2');
  });

  it('is refused when it is a backup', async () => {
    await writeTexts({ 'backup.json': '{"format":"netplug-backup/2"}' });
    await expect(readBackup(folder)).rejects.toMatchObject({
      code: 'upgrade/backup-unusable',
      message: expect.stringContaining('backup.json has a form that this release does not read') as string,
    });
  });
});

describe('a backup with valid checksums', () => {
  const HEADER = {
    format: 'netplug-backup/1',
    at: '',
    by: '',
    from: 'v3.26.4',
    to: 'v3.27.0',
    method: 'manifest',
    applied: [],
  };
  const evil = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'evil-from-backup' },
    roleRef: { kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'User', name: 'mallory' }],
  };
  const token = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'token', namespace: 'kube-system' },
    type: 'Opaque',
  };

  it.each([
    ['objects.json', evil, 'ClusterRoleBinding evil-from-backup'],
    ['charts.json', token, 'Secret kube-system/token'],
    ['objects.json', { kind: 'Pod' }, 'one without a name'],
  ] as const)('is refused when %s has an object that is not netplug’s', async (file, object, name) => {
    await writeTexts({ 'backup.json': JSON.stringify(HEADER), [file]: JSON.stringify([object]) });
    await expect(readBackup(folder)).rejects.toMatchObject({
      code: 'upgrade/backup-unusable',
      message: expect.stringContaining(`it has objects that are not netplug's: ${name}`) as string,
    });
  });
});

describe('a record of helm', () => {
  const secretOf = (release: string): Parameters<typeof decodeRecord>[0] => ({
    metadata: { name: 'sh.helm.release.v1.calico.v3', namespace: 'default' },
    data: { release },
  });
  const pack = (release: object): string =>
    Buffer.from(gzipSync(JSON.stringify(release)).toString('base64')).toString('base64');
  const RELEASE = {
    name: 'calico',
    namespace: 'default',
    version: 3,
    info: { status: 'deployed' },
    chart: { metadata: { name: 'netplug', version: '3.22.1' } },
    config: { installation: { registry: 'registry.example' } },
    manifest: 'kind: Deployment\nmetadata:\n  name: netplug-operator\n',
  };

  it('is read without helm', async () => {
    expect(await decodeRecord(secretOf(pack(RELEASE)))).toEqual({
      isOurs: true,
      release: {
        name: 'calico',
        namespace: 'default',
        revision: 3,
        status: 'deployed',
        chart: 'netplug',
        version: 'v3.22.1',
        values: { installation: { registry: 'registry.example' } },
        record: 'sh.helm.release.v1.calico.v3',
        kinds: ['Deployment'],
      },
    });
  });

  it('is not that of netplug when it is of another chart', async () => {
    expect(await decodeRecord(secretOf(pack({ ...RELEASE, manifest: 'name: other\n' })))).toMatchObject({
      isOurs: false,
    });
  });

  it.each([
    ['', 'it has no release'],
    ['bm9uc2Vuc2U=', 'it is damaged'],
    [pack({ name: 'calico' }), 'it has another form'],
  ])('is reported when it is broken: %s', async (data, why) => {
    expect(await decodeRecord(secretOf(data))).toContain(why);
  });
});
