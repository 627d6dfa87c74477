import { preallocate, takeSlot, updateTo } from '../../../../test/support/block-edits.ts';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type CtlWorld, type Ran } from '../../../../test/support/ctl.ts';
import { nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { sha256Of } from '../../../base/sha256.ts';
import { seededRandom } from '../../../base/random.ts';
import { cniEndpoint, holder } from '../../../../test/contract/suites/datastore/bench.ts';
import { newCluster } from '../../../datastore/keep-cluster-information.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { type StoreFault, openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { memoryPlanRecords, type PlanRecords } from '../../../plans/plan-records.ts';
import { CLUSTER_INFORMATION_ID } from '../../../model/cluster-information.ts';
import { emptyBlock } from '../../../model/ip-block.ts';
import type { NodeName } from '../../../model/names.ts';
import { parseCidr } from '../../../net/cidr.ts';

const never = new AbortController().signal;
const [a, b] = ['node-a', 'node-b'] as [NodeName, NodeName];
let source: MemoryDatabase;
let target: MemoryDatabase;
let folder: string;
let planRecords: PlanRecords;
let file: string;
beforeEach(() => {
  [source, target] = [new MemoryDatabase(), new MemoryDatabase()];
  planRecords = memoryPlanRecords();
  folder = mkdtempSync(join(tmpdir(), 'netplug-export-'));
  file = join(folder, 'export.json');
});
afterEach(() => rmSync(folder, { recursive: true }));

const on = async (database: MemoryDatabase, words: string, world: CtlWorld = {}): Promise<Ran> =>
  callCtl(words.split(' '), {
    env: { KV_ENDPOINTS: 'http://127.0.0.1:1' },
    openStore: () => openMemoryStore(database),
    planRecords,
    ...world,
  });

async function seed(): Promise<void> {
  const store = openMemoryStore(source);
  for (const made of [poolOf('blue', '10.0.0.0/16'), nodeOf('node-a', { rack: '7' })]) {
    await store.createResource(made, never);
  }
  const block = takeSlot(takeSlot(emptyBlock(parseCidr('10.0.0.0/28'), a), 3, holder('x', a)), 5, holder('y', b));
  await store.commit([{ kind: 'create-block', block, pool: undefined }], never);
  const orphan = { ...takeSlot(emptyBlock(parseCidr('10.0.0.16/28'), b), 0, holder('z', a)), node: undefined };
  await store.commit([{ kind: 'create-block', block: orphan, pool: undefined }], never);
  await store.commit([{ kind: 'put-endpoint', endpoint: cniEndpoint('e', { node: a }) }], never);
}

async function exported(): Promise<void> {
  await seed();
  await on(source, 'datastore lock');
  expect(await on(source, `datastore export --output ${file}`)).toMatchObject({
    status: 0,
    out: '',
    err: 'exported 1 IPPool, 1 Node, 2 blocks, 1 endpoint\n',
  });
}

/** The contents without uids and versions, which each datastore assigns itself. */
async function everything(database: MemoryDatabase): Promise<unknown> {
  const store = openMemoryStore(database);
  const plain = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value, (key, each: unknown) => (IDENTITY.has(key) ? undefined : each)));
  const { blocks } = await store.listBlocks(never);
  return {
    pools: plain(await store.listResources('IPPool', never)),
    nodes: plain(await store.listResources('Node', never)),
    blocks: blocks.map(({ value }) => value),
    endpoints: plain((await store.listEndpoints(undefined, never)).endpoints.map(({ value }) => value)),
  };
}
const IDENTITY = new Set(['uid', 'creationTimestamp', 'resourceVersion']);
const clusterOf = async (database: MemoryDatabase): Promise<unknown> =>
  (await openMemoryStore(database).findResource(CLUSTER_INFORMATION_ID, never))?.spec;

describe('datastore lock and unlock', () => {
  it('print the state they found, and can be repeated', async () => {
    expect(await on(source, 'datastore lock')).toEqual({ status: 0, out: 'the datastore is locked\n', err: '' });
    expect(await on(source, 'datastore lock')).toMatchObject({ out: 'the datastore was already locked\n' });
    expect(await clusterOf(source)).toMatchObject({ datastoreReady: false, clusterGUID: expect.any(String) as string });
    expect(await on(source, 'datastore unlock')).toMatchObject({ status: 0, out: 'the datastore is unlocked\n' });
    expect(await on(source, 'datastore unlock')).toMatchObject({ status: 0, out: 'the datastore was not locked\n' });
    expect(await clusterOf(source)).toMatchObject({ datastoreReady: true });
  });

  it('do not create ClusterInformation when there is nothing to unlock', async () => {
    await on(source, 'datastore unlock');
    expect(await clusterOf(source)).toBeUndefined();
  });

  it('name the nodes whose agents still hold pre-allocated addresses', async () => {
    const block = preallocate(emptyBlock(parseCidr('10.0.0.0/28'), a), new Map([[0, 'r#1']]));
    await openMemoryStore(source).commit([{ kind: 'create-block', block, pool: undefined }], never);
    expect((await on(source, 'datastore lock')).err).toBe(
      'warning: the agent of node "node-a" is stopped or disconnected and still holds 1 pre-allocated address\n',
    );
    expect(await on(source, 'datastore export')).toMatchObject({ status: 69, out: '' });
    const forced = await on(source, 'datastore export --force');
    expect(forced).toMatchObject({ status: 0 });
    expect(JSON.parse(forced.out)).toMatchObject({ contents: { blocks: [{ free: '0-15' }] } });
  });
});

describe('datastore export', () => {
  it('is refused while the datastore is not locked', async () => {
    await seed();
    expect(await on(source, 'datastore export')).toMatchObject({
      status: 64,
      out: '',
      err: expect.stringContaining('netplugctl datastore lock') as string,
    });
  });

  it('is refused when a record cannot be decoded', async () => {
    await seed();
    await on(source, 'datastore lock');
    source.damage({ block: parseCidr('10.0.0.0/28') });
    expect(await on(source, `datastore export --output ${file}`)).toMatchObject({ status: 65 });
    expect(() => readFileSync(file)).toThrow('ENOENT');
  });

  it('changes nothing', async () => {
    await seed();
    await on(source, 'datastore lock');
    const before = source.state();
    await on(source, 'datastore export');
    expect(source.state()).toBe(before);
  });
});

describe('datastore import', () => {
  it('copies everything into the other datastore and locks it, with the same cluster id', async () => {
    await exported();
    const ran = await on(target, `datastore import -f ${file}`);
    expect(ran).toMatchObject({ status: 0, err: '' });
    expect(ran.out).toMatch(/^imported and read back: 1 IPPool, 1 Node, 2 blocks, 1 endpoint\n/);
    expect(await everything(target)).toEqual(await everything(source));
    expect(await clusterOf(target)).toEqual(await clusterOf(source));
  });

  it('reads the file from standard input', async () => {
    await exported();
    const stdin = readFileSync(file, 'utf8');
    expect(await on(target, 'datastore import -f -', { stdin })).toMatchObject({ status: 0 });
    expect(await everything(target)).toEqual(await everything(source));
  });

  it('resumes after any of its writes', async () => {
    await exported();
    for (let allowed = 0; ; allowed += 1) {
      target.clear();
      let left = allowed;
      const fault = (operation: string): StoreFault | undefined => {
        if (!['commit', 'createResource', 'updateResource'].includes(operation)) return undefined;
        left -= 1;
        return left === -1 ? { kind: allowed % 2 === 0 ? 'unavailable-before' : 'unavailable-after' } : undefined;
      };
      const broken = await on(target, `datastore import -f ${file}`, {
        openStore: () => openMemoryStore(target, { fault }),
      });
      const repeated = await on(target, `datastore import -f ${file}`);
      expect([repeated.status, repeated.err]).toEqual([0, '']);
      expect(await everything(target)).toEqual(await everything(source));
      expect(await on(target, `datastore import -f ${file} --undo`)).toMatchObject({ status: 0 });
      expect(target.state().resources.size + target.state().blocks.size + target.state().endpoints.size).toBe(0);
      if (broken.status === 0) return;
      expect(broken.status).toBe(75);
    }
  });

  it('prints with --dry-run what it would do, and changes nothing', async () => {
    await exported();
    expect(await on(target, `datastore import -f ${file} --dry-run`)).toEqual({
      status: 0,
      out: expect.stringMatching(/^dry run: 5 to be written, 0 exist already\n1\. Lock the datastore\n/),
      err: '',
    });
    expect(target.state().resources.size).toBe(0);
  });

  it('reports with --dry-run what would refuse it', async () => {
    await exported();
    const cluster = newCluster();
    const spec = { ...cluster.spec, netplugVersion: 'v3.26.0', datastoreReady: false };
    await openMemoryStore(target).createResource({ ...cluster, spec }, never);
    expect(await on(target, `datastore import -f ${file} --dry-run`)).toMatchObject({
      status: 79,
      out: expect.stringMatching(/^dry run: 5 to be written, 0 exist already\n1\. Lock the datastore\n/),
      err: expect.stringMatching(/^would be refused: .*the cluster is of version v3.26.0\n/) as string,
    });
    expect(await on(target, `datastore import -f ${file} --dry-run --allow-version-mismatch`)).toMatchObject({
      status: 0,
      err: '',
    });
  });

  it('is refused while the datastore is in use and not locked', async () => {
    await exported();
    await openMemoryStore(target).createResource(poolOf('green', '10.1.0.0/16'), never);
    const refused = await on(target, `datastore import -f ${file}`);
    expect(refused).toMatchObject({ status: 73, err: expect.stringContaining('neither empty nor locked') as string });
    await on(target, 'datastore lock');
    expect(await on(target, `datastore import -f ${file}`)).toMatchObject({ status: 0 });
    expect(await on(target, `datastore import -f ${file} --undo`)).toMatchObject({ status: 0 });
    const { resources } = await openMemoryStore(target).listResources('IPPool', never);
    expect(resources.map(({ metadata }) => metadata.name)).toEqual(['green']);
    expect(await clusterOf(target)).toMatchObject({ datastoreReady: false });
  });

  it('overwrites nothing, and lists every record that differs or overlaps', async () => {
    await exported();
    const there = openMemoryStore(target);
    await there.createResource(nodeOf('node-a', { rack: '8' }), never);
    await there.createResource(poolOf('other', '10.0.128.0/17'), never);
    await there.commit(
      [{ kind: 'create-block', block: emptyBlock(parseCidr('10.0.0.0/27'), b), pool: undefined }],
      never,
    );
    await on(target, 'datastore lock');
    const before = target.state();
    const { status, err } = await on(target, `datastore import -f ${file}`);
    expect(status).toBe(73);
    for (const words of [
      'Node "node-a" exists already and differs',
      'IPPool "blue": 10.0.0.0/16 overlaps 10.0.128.0/17 of pool "other"',
      'block 10.0.0.0/28 overlaps block 10.0.0.0/27',
    ])
      expect(err).toContain(words);
    expect(target.state()).toBe(before);
  });

  it('fails at the end when another program has changed what it wrote', async () => {
    await exported();
    let isTampered = false;
    const fault = (operation: string): StoreFault | undefined => {
      if (operation !== 'listBlocks' || isTampered || target.state().endpoints.size === 0) return undefined;
      isTampered = true;
      const [, record] = [...target.state().blocks][0]!;
      if (typeof record.value === 'symbol') throw new Error('unreadable');
      const before = { value: record.value, version: record.version };
      const after = takeSlot(record.value, 9, holder('stranger', b));
      expect(target.commit([updateTo(before, after)])).toBe('committed');
      return undefined;
    };
    const ran = await on(target, `datastore import -f ${file}`, {
      openStore: () => openMemoryStore(target, { fault }),
    });
    expect(isTampered).toBe(true);
    expect(ran).toMatchObject({ status: 1, err: expect.stringContaining('cli/import-differs') as string });
    expect(ran.err).toContain('block 10.0.0.0/28 exists already and differs');
    expect(await on(target, 'datastore unlock')).toMatchObject({
      status: 73,
      err: expect.stringContaining('is unfinished') as string,
    });
    expect(await on(target, `datastore import -f ${file} --undo`)).toMatchObject({ status: 73 });
    expect(await on(target, 'datastore unlock --force')).toMatchObject({ status: 0 });
  });
});

describe('undoing an import', () => {
  it('keeps what existed before the import', async () => {
    await exported();
    const there = openMemoryStore(target);
    await there.createResource(poolOf('blue', '10.0.0.0/16'), never);
    await on(target, 'datastore lock', { random: seededRandom(7) });
    const [before, cluster] = [await everything(target), await clusterOf(target)];
    expect(await on(target, `datastore import -f ${file}`)).toMatchObject({ status: 0 });
    expect(await clusterOf(target)).not.toEqual(cluster);
    expect(await on(target, `datastore import -f ${file} --undo --dry-run`)).toMatchObject({
      out: expect.stringMatching(/^dry run: 4 records to be removed\n1\. Remove .*\n {3}remove 1 endpoint\n/),
    });
    expect(await on(target, `datastore import -f ${file} --undo`)).toMatchObject({
      status: 0,
      out: 'removed 4 records; the datastore is as it was before the import\n',
    });
    expect([await everything(target), await clusterOf(target)]).toEqual([before, cluster]);
  });

  it('removes everything also when an undo failed before the import was completed', async () => {
    await exported();
    const failing = (operations: readonly string[], allowed = 0): CtlWorld => {
      let left = allowed;
      const fault = (operation: string): StoreFault | undefined => {
        if (!operations.includes(operation)) return undefined;
        left -= 1;
        return left < 0 ? { kind: 'unavailable-before' } : undefined;
      };
      return { openStore: () => openMemoryStore(target, { fault }) };
    };
    const [load, undo] = [`datastore import -f ${file}`, `datastore import -f ${file} --undo`];
    const writes = ['createResource', 'updateResource', 'deleteResource', 'commit'];
    expect(await on(target, load, failing(writes, 1))).toMatchObject({ status: 75 });
    expect(await on(target, undo, failing(writes))).toMatchObject({ status: 75 });
    expect(await on(target, load)).toMatchObject({ status: 0 });
    expect(await on(target, undo)).toMatchObject({ status: 0 });
    expect(target.state().resources.size + target.state().blocks.size + target.state().endpoints.size).toBe(0);
  });

  it('is refused after the datastore was unlocked, for another file, or without an import', async () => {
    await exported();
    const refusal = (words: string): object => ({ status: 73, err: expect.stringContaining(words) as string });
    expect(await on(target, `datastore import -f ${file} --undo`)).toMatchObject(refusal('nothing was imported'));
    await on(target, `datastore import -f ${file}`);
    const other = join(folder, 'other.json');
    await on(source, 'datastore unlock');
    await on(source, 'delete node node-a');
    await on(source, 'datastore lock');
    await on(source, `datastore export --output ${other}`);
    expect(await on(target, `datastore import -f ${other} --undo`)).toMatchObject(refusal('another file'));
    expect(await on(target, `datastore import -f ${other}`)).toMatchObject(refusal('another file was imported'));
    await on(target, 'datastore unlock');
    await on(target, 'datastore lock');
    expect(await on(target, `datastore import -f ${file} --undo`)).toMatchObject(refusal('nothing was imported'));
    expect(await everything(target)).not.toEqual(await everything(new MemoryDatabase()));
  });
});

describe('a file that is not an export', () => {
  const tampered = (change: (file: Tampered) => void): string => {
    const read = JSON.parse(readFileSync(file, 'utf8')) as Tampered;
    change(read);
    return JSON.stringify(read);
  };
  interface Tampered {
    format: string;
    counts: Record<string, number>;
    checksum: string;
    contents: {
      cluster: object;
      resources: { kind: string; spec: object }[];
      blocks: { slots: object }[];
      endpoints: object[];
    };
  }
  const sealed = (read: Tampered): void => {
    read.checksum = `sha256:${sha256Of(JSON.stringify(read.contents))}`;
  };

  it.each<[string, (read: Tampered) => void, string]>([
    ['a changed record', (read) => void (read.contents.blocks[0]!.slots = {}), 'checksum'],
    ['a missing record', (read) => void read.contents.endpoints.pop(), 'checksum'],
    ['a newer format', (read) => void (read.format = 'netplug-datastore/2'), '"netplug-datastore/2"'],
    ['other counts', (read) => void (read.counts['block'] = 3), 'counts'],
    [
      'an unknown kind',
      (read) => {
        read.contents.resources[0]!.kind = 'IPPoll';
        sealed(read);
      },
      'counts',
    ],
    [
      'a broken rule',
      (read) => {
        read.contents.resources[0]!.spec = { cidr: 'x' };
        sealed(read);
      },
      'resources[0]: spec.cidr',
    ],
    [
      'no cluster',
      (read) => {
        read.contents.cluster = read.contents.resources[0]!;
        sealed(read);
      },
      'ClusterInformation',
    ],
  ])('is refused when it has %s', async (_, change, words) => {
    await exported();
    writeFileSync(file, tampered(change));
    const ran = await on(target, `datastore import -f ${file}`);
    expect(ran).toMatchObject({ status: 65, out: '', err: expect.stringContaining('cli/export-unusable') as string });
    expect(ran.err).toContain(words);
    expect(target.state().resources.size).toBe(0);
  });

  it.each(['', '{}', '[]', '{"format":1}', 'kind: IPPool'])('is refused when its text is %j', async (text) => {
    const ran = await on(target, 'datastore import -f -', { stdin: text });
    expect(ran).toMatchObject({ status: 65, err: expect.stringContaining('not an exported datastore') as string });
  });
});
