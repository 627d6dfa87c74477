import { beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../test/support/ctl.ts';
import { poolOf } from '../../../test/support/fixtures.ts';
import { VERSION } from '../../base/version.ts';
import { newCluster } from '../../datastore/keep-cluster-information.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { ClusterInformationSpec } from '../../model/cluster-information.ts';

const never = new AbortController().signal;
let database: MemoryDatabase;
beforeEach(() => {
  database = new MemoryDatabase();
});

const ctl = async (...argv: string[]): Promise<Ran> =>
  callCtl(argv, {
    env: { KV_ENDPOINTS: 'http://127.0.0.1:1' },
    openStore: () => openMemoryStore(database),
    stdin: JSON.stringify(poolOf('blue', '10.0.0.0/16')),
  });
const note = async (spec: Partial<ClusterInformationSpec>): Promise<void> => {
  const cluster = newCluster();
  await openMemoryStore(database).createResource({ ...cluster, spec: { ...cluster.spec, ...spec } }, never);
};
const putGreen = async (): Promise<unknown> =>
  openMemoryStore(database).createResource(poolOf('green', '10.1.0.0/16'), never);
const WRITES = [
  ['apply', '-f', '-'],
  ['delete', 'pool', 'blue', '--ignore-not-found'],
  ['ipam', 'check', '--fix', '--no-kernel'],
  ['ipam', 'configure', '--max-blocks', '2'],
  ['node', 'remove', 'node-a'],
  ['host-endpoints', 'prepare-upgrade'],
  ['host-endpoints', 'migrate'],
];
const READS = [
  ['get', 'pools'],
  ['ipam', 'show'],
  ['ipam', 'check', '--no-kernel'],
];
const REHEARSALS = [
  ['apply', '-f', '-', '--dry-run'],
  ['create', '-f', '-', '--dry-run'],
  ['label', 'pool', 'green', 'a=b', '--dry-run'],
  ['patch', 'pool', 'green', '-p', 'spec: {disabled: true}', '--dry-run'],
  ['delete', 'pool', 'green', '--dry-run'],
  ['node', 'remove', 'node-a', '--dry-run'],
  ['host-endpoints', 'prepare-upgrade', '--dry-run'],
  ['host-endpoints', 'migrate', '--dry-run'],
];

describe('a cluster of another version', () => {
  beforeEach(async () => note({ netplugVersion: 'v3.27.9' }));

  it.each(WRITES)('is not written to with "%s %s" [ctl-cluster-version]', async (...words) => {
    const ran = await ctl(...words);
    expect(ran).toMatchObject({ status: 79, out: '' });
    expect(ran.err).toContain(`Cannot write with netplugctl ${VERSION}: the cluster is of version v3.27.9\n`);
    expect(ran.err).toContain('code: cli/version-mismatch\n');
    expect(database.state().resources.size).toBe(1);
  });

  it.each(WRITES)('is written to with "%s %s" when the user overrides the refusal', async (...words) => {
    expect(await ctl(...words, '--allow-version-mismatch')).toMatchObject({ status: 0, err: '' });
  });

  it.each(READS)('is read with "%s %s" and a warning', async (...words) => {
    const ran = await ctl(...words);
    expect(ran).toMatchObject({ status: 0 });
    expect(ran.err).toBe(`warning: this tool is ${VERSION}, the cluster v3.27.9: it may not show everything\n`);
  });

  it.each(REHEARSALS)('reports that "%s %s" would be refused', async (...words) => {
    await putGreen();
    const before = database.state();
    const ran = await ctl(...words);
    expect(ran).toMatchObject({ status: 79, out: expect.not.stringMatching(/^$/) });
    expect(ran.err).toMatch(
      /^would be refused: Cannot write with netplugctl [^ ]+: the cluster is of version v3.27.9\n {2}hint: .*\n {2}code: cli\/version-mismatch\n/,
    );
    expect(database.state()).toBe(before);
    expect(await ctl(...words, '--allow-version-mismatch')).toEqual({ status: 0, out: ran.out, err: '' });
  });

  it('is shown by the version command without a warning [ctl-version]', async () => {
    expect(await ctl('version')).toEqual({
      status: 0,
      err: '',
      out: `Client Version: ${VERSION}\nCluster Version: v3.27.9\nCluster Type: unknown\ndatastore: kvv3 reachable\n`,
    });
  });
});

describe('a cluster of an older version', () => {
  beforeEach(async () => note({ netplugVersion: 'v3.13.0' }));

  it('is prepared for the upgrade by the tool of the new release [up-hostendpoints]', async () => {
    const dryRun = await ctl('host-endpoints', 'prepare-upgrade', '--dry-run');
    expect(dryRun).toMatchObject({ status: 0, err: '' });
    expect(await ctl('host-endpoints', 'prepare-upgrade')).toMatchObject({ status: 0, err: '' });
    expect(database.state().resources.size).toBe(2);
    expect(await ctl('host-endpoints', 'migrate')).toMatchObject({ status: 79 });
    expect(await ctl('host-endpoints', 'prepare-upgrade', '--undo')).toMatchObject({ status: 0, err: '' });
  });

  it('is not prepared while it is locked', async () => {
    await ctl('datastore', 'lock', '--allow-version-mismatch');
    expect(await ctl('host-endpoints', 'prepare-upgrade')).toMatchObject({ status: 75 });
  });
});

describe('a cluster', () => {
  it.each([VERSION, VERSION.slice(1), `${VERSION}-4-gabcdef`, ''])(
    'may be written to when its version is %j',
    async (netplugVersion) => {
      await note({ netplugVersion });
      expect(await ctl('apply', '-f', '-')).toMatchObject({ status: 0, err: '' });
    },
  );

  it('may be written to when its version is unknown', async () => {
    expect(await ctl('apply', '-f', '-')).toMatchObject({ status: 0, err: '' });
    expect((await ctl('version')).out).toContain('Cluster Version: unknown (no agent has registered yet)\n');
  });
});

describe('a cluster whose ClusterInformation cannot be read', () => {
  beforeEach(() => database.damage({ kind: 'ClusterInformation', name: 'default' }));

  it.each([
    ...WRITES,
    ...WRITES.map((words) => ['--allow-version-mismatch', ...words]),
    ...WRITES.map((words) => ['--allow-locked', ...words]),
  ])('is not written to with "%s %s"', async (...words) => {
    const before = database.state();
    const ran = await ctl(...words);
    expect(ran).toMatchObject({ status: 65, out: '' });
    expect(ran.err).toContain('Cannot write: the version and the lock of the cluster cannot be read: ');
    expect(database.state()).toBe(before);
  });

  it.each([...WRITES.map((words) => ['--allow-version-mismatch', '--allow-locked', ...words]), ...READS])(
    'is used by "%s %s" with a warning',
    async (...words) => {
      expect(await ctl(...words)).toMatchObject({
        status: 0,
        err: expect.stringMatching(/^warning: cannot read the version of the cluster: /) as string,
      });
    },
  );

  it('does not stop the commands that manage the lock', async () => {
    const { err } = await ctl('datastore', 'lock', '--allow-version-mismatch');
    expect(err).toMatch(/^warning: cannot read the version of the cluster: /);
  });
});

describe('a locked datastore', () => {
  beforeEach(async () => note({ netplugVersion: VERSION, clusterType: 'kv', datastoreReady: false }));

  it.each(WRITES)('is not written to with "%s %s"', async (...words) => {
    expect(await ctl(...words)).toMatchObject({
      status: 75,
      out: '',
      err: expect.stringContaining('Cannot write: the datastore is locked for maintenance\n') as string,
    });
    expect(database.state().resources.size).toBe(1);
  });

  it.each(WRITES)('is written to with "%s %s" when the user overrides the refusal', async (...words) => {
    expect(await ctl('--allow-locked', ...words)).toMatchObject({ status: 0, err: '' });
  });

  it.each(READS)('is read with "%s %s"', async (...words) => {
    expect(await ctl(...words)).toMatchObject({ status: 0, err: '' });
  });

  it.each(REHEARSALS)('reports that "%s %s" would be refused', async (...words) => {
    await putGreen();
    const ran = await ctl(...words);
    expect(ran).toMatchObject({ status: 75, out: expect.not.stringMatching(/^$/) });
    expect(ran.err).toMatch(/^would be refused: Cannot write: the datastore is locked for maintenance\n/);
  });

  it('is shown as locked by the version command', async () => {
    expect((await ctl('version')).out).toContain('Cluster Type: kv\ndatastore: kvv3 reachable, locked\n');
  });
});
