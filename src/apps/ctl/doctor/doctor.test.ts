import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { forTerminal } from '../screen.ts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type CtlWorld, machineIn, type Ran } from '../../../../test/support/ctl.ts';
import { nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { MemoryKernel } from '../../../../test/support/memory/memory-kernel.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { renderDoctor } from './render-doctor.ts';
import { TOPICS } from './topics.ts';

let folder: string;
let database: MemoryDatabase;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-doctor-'));
  database = new MemoryDatabase();
  database.putResource({ kind: 'IPPool', name: 'blue' }, poolOf('blue', '10.0.0.0/16'));
  database.putResource({ kind: 'Node', name: 'node-a' }, nodeOf('node-a'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function run(argv: string, more: CtlWorld = {}): Promise<Ran> {
  // Nothing listens on the discard port.
  const places = `--conf-dir ${folder} --bin-dir ${folder} --health 127.0.0.1:9`;
  return callCtl(`doctor ${places} ${argv}`.trim().split(' '), {
    env: { KV_ENDPOINTS: 'http://127.0.0.1:1' },
    machine: machineIn(folder),
    openStore: () => openMemoryStore(database),
    openKernel: () => new MemoryKernel(),
    ...more,
  });
}

async function idsOf(argv: string, more: CtlWorld = {}): Promise<readonly string[]> {
  const { out } = await run(`${argv} -o json`, more);
  const { findings } = JSON.parse(out) as { findings: { id: string }[] };
  return findings.map(({ id }) => id);
}

describe('netplugctl doctor', () => {
  it('examines only the cluster when the machine is no node, and reports why', async () => {
    const { status, out } = await run('');
    expect(status).toBe(0);
    expect(out).toContain('datastore  kvv3 (KV_ENDPOINTS) · answers in 0.0 ms · memory\n');
    expect(out).toContain('left out: config, admission, files, agent, typha, kernel, bgp (the caller is not root');
    expect(out).toMatch(/\nexamined 13 areas: no problems found\n$/);
  });

  it('exits with status 1 when there is an error, and prints the remedy', async () => {
    database.putResource({ kind: 'IPPool', name: 'blue' }, poolOf('blue', '10.0.0.0/16', { disabled: true }));
    const { status, out } = await run('--cluster');
    expect(status).toBe(1);
    expect(out).toContain(
      [
        '  error    pools/none: every pool is disabled, or not for pods',
        '           expected: an enabled pool for pods',
        '           remedy: Create a pool, or enable one',
        '             $ netplugctl apply -f examples/ippools.yaml',
        '',
      ].join('\n'),
    );
    expect(out).toContain(
      'left out: config, admission, files, agent, typha, kernel, bgp (only the cluster was asked for)',
    );
  });

  it('examines areas that need no datastore while the datastore is unavailable', async () => {
    const fault = (): { kind: 'unavailable-before' } => ({ kind: 'unavailable-before' });
    const openStore = (): ReturnType<typeof openMemoryStore> => openMemoryStore(database, { fault });
    const { status, out } = await run('--cluster', { openStore });
    expect(status).toBe(1);
    expect(out).toContain('datastore/unusable');
    expect(out).toContain(
      'left out: versions, nodes, controllers, typha, policies, mesh, pools, addresses, ipam (the datastore cannot be used)',
    );
  });

  it('reports a finding for an area whose facts are unavailable', async () => {
    await writeFile(join(folder, 'file'), '');
    const host = { uid: 0, procDir: join(folder, 'no-proc') };
    const ids = await idsOf(`--node --conf-dir ${join(folder, 'file')}`, { host });
    expect(ids).toContain('config/missing');
    expect(ids).toContain('kernel/unexamined');
  });

  it('examines a node that an agent has registered when root runs it', async () => {
    const host = { uid: 0, procDir: '/proc' };
    await writeFile(join(folder, '10-netplug.conflist'), '{"plugins":[{"type":"netplug"}]}');
    const here = await run('', { host, readRegisteredName: () => 'node-a' });
    expect(here.out).toContain('agent/silent');
    expect(here.out).not.toContain('left out');
    expect((await run('', { host })).out).toContain('no agent has registered this machine');
  });

  it('examines only the cluster where an agent has left its state folder and nothing else, and names that', async () => {
    const world = { host: { uid: 0, procDir: '/proc' }, readRegisteredName: () => 'node-a' };
    const first = await run('', world);
    expect(first.status).toBe(0);
    expect(first.out).toContain('left out: config, admission, files, agent, typha, kernel, bgp (no agent runs on this');
    expect(first.out).toContain(`can be removed with: rm -r ${machineIn(folder).stateDir}; use --node`);
    // Not yet safe.
    await mkdir(join(machineIn(folder).stateDir, 'journal'), { recursive: true });
    await writeFile(join(machineIn(folder).stateDir, 'journal/1.jsonl'), '');
    expect((await run('', world)).out).toMatch(/with a journal that may not be in the datastore; use --node/);
    const kernel = new MemoryKernel();
    kernel.addNetns('/pod');
    const owner = { containerId: 'c', ifName: 'eth0', network: 'n' };
    const link = { netns: '/pod', podLinkName: 'eth0', hostLinkName: 'npl1', owner, podMac: '0a:00:00:00:00:01' };
    const pod = { ...link, mtu: undefined, queues: 1, addresses: [], routes: [], allowIpForwarding: false };
    await kernel.apply(pod, AbortSignal.timeout(5000));
    expect((await run('', { ...world, openKernel: () => kernel })).out).toContain('agent/silent');
  });

  it('takes the connection from the network configuration when the command has none', async () => {
    const opened: unknown[] = [];
    const netplug = { type: 'netplug', kv_endpoints: 'http://here:1', ipam: { type: 'netplug-ipam' } };
    const conflist = { name: 'net', cniVersion: '1.0.0', plugins: [netplug] };
    await writeFile(join(folder, '10-netplug.conflist'), JSON.stringify(conflist));
    const openStore = (datastore: unknown): ReturnType<typeof openMemoryStore> => {
      opened.push(datastore);
      return openMemoryStore(database);
    };
    const { out } = await run('--cluster', { env: {}, openStore });
    expect(opened).toMatchObject([{ connection: { endpoints: { urls: ['http://here:1'] } } }]);
    expect(out).toContain(`kvv3 (the network configuration of this node "${folder}/10-netplug.conflist")`);
  });

  it('lists its checks without running them', async () => {
    const ids = TOPICS.flatMap(({ checks }) => checks.map(({ id }) => id));
    const { status, out } = await run('--list', { openStore: () => expect.unreachable() });
    expect(status).toBe(0);
    expect(ids.filter((id) => !out.includes(`\n${id} `))).toEqual([]);
    expect(new Set(ids).size).toBe(ids.length);
    expect(
      ids.filter((id, index) => id.split('/')[0] !== TOPICS.flatMap((each) => each.checks.map(() => each.area))[index]),
    ).toEqual([]);
  });

  it('colours output for terminals, and removes control characters from findings', () => {
    const evil = '\u001B[2J\u0007';
    const finding = {
      area: 'a',
      id: 'a/b',
      severity: 'error',
      expected: 'e',
      found: evil,
      remedy: evil,
      command: evil,
    } as const;
    const diagnosis = { examined: [{ area: 'a', measured: [evil], findings: [finding] }], leftOut: [] };
    expect(renderDoctor(diagnosis, { columns: 80, mayColour: false })).not.toMatch(/(?!\n)\p{Cc}/u);
    const coloured = renderDoctor(diagnosis, { columns: 80, mayColour: true });
    expect(forTerminal(coloured)).toContain('\u001B[31merror');
    expect(stripVTControlCharacters(coloured)).toBe(renderDoctor(diagnosis, { columns: 80, mayColour: false }));
  });
});
