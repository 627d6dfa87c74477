import { beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { automaticHostEndpointOf, hostEndpointOf, nodeOf } from '../../../../test/support/fixtures.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { Store } from '../../../datastore/store.ts';
import { memoryPlanRecords, type PlanRecords } from '../../../plans/plan-records.ts';
import type { AnyResource } from '../../../model/kinds.ts';

const signal = new AbortController().signal;
const LABEL = 'netplug/host-endpoint-upgrade';
const POLICY = { kind: 'GlobalNetworkPolicy', name: 'allow-all-upgrade' } as const;

let database: MemoryDatabase;
let store: Store;
let planRecords: PlanRecords;
beforeEach(() => {
  planRecords = memoryPlanRecords();
  database = new MemoryDatabase();
  store = openMemoryStore(database);
});

async function run(words: string, type: 'kvv3' | 'orch' = 'kvv3', given?: Store): Promise<Ran> {
  return callCtl(`host-endpoints ${words}`.split(' '), {
    env: type === 'orch' ? { ORCHCONFIG: '/admin' } : { KV_ENDPOINTS: 'http://127.0.0.1:2379' },
    openStore: () => given ?? openMemoryStore(database),
    planRecords,
  });
}
/** Runs the command as if it were killed at that record of its plan. */
async function runKilled(words: string, moment: number): Promise<Ran> {
  const records = planRecords;
  planRecords = endAfter(records, moment);
  const ran = await run(words);
  planRecords = records;
  return ran;
}
async function put(...resources: readonly AnyResource[]): Promise<void> {
  for (const resource of resources) await store.createResource(resource, signal);
}
async function labelsOf(kind: 'HostEndpoint' | 'Node', name: string): Promise<unknown> {
  return (await store.findResource({ kind, name }, signal))?.metadata.labels;
}

describe('netplugctl host-endpoints list', () => {
  beforeEach(async () => {
    await put(
      hostEndpointOf('a', 'n1', { labels: { role: 'x', [LABEL]: '' } }),
      hostEndpointOf('b', 'n2', { interfaceName: 'eth0' }),
      automaticHostEndpointOf('n3'),
    );
  });

  it('shows whether a user or the controllers created each endpoint', async () => {
    expect((await run('list')).out).toBe(
      [
        'NODE  NAME         INTERFACE  MADE BY      LABELS',
        'n1    a            *          user         netplug/host-endpoint-upgrade=,role=x',
        'n2    b            eth0       user',
        'n3    n3-auto-hep  *          controllers  netplug/created-by=netplug-orch-controllers',
        '',
      ].join('\n'),
    );
  });

  it('selects endpoints for all interfaces by their spec, not by how a line of the table looks [up-hostendpoints]', async () => {
    await put(hostEndpointOf('c', 'n4', { interfaceName: 'eth1', labels: { star: 'x' } }));
    const { out } = await run('list --all-interfaces -o json');
    expect(JSON.parse(out)).toEqual([
      { node: 'n1', name: 'a', interfaceName: '*', madeBy: 'user', labels: { role: 'x', [LABEL]: '' } },
      expect.objectContaining({ name: 'n3-auto-hep', madeBy: 'controllers' }),
    ]);
  });
});

describe('netplugctl host-endpoints prepare-upgrade', () => {
  beforeEach(async () => {
    await put(
      hostEndpointOf('a', 'n1', { labels: { role: 'x' } }),
      hostEndpointOf('b', 'n2'),
      hostEndpointOf('c', 'n2', { interfaceName: 'eth0' }),
      automaticHostEndpointOf('n3'),
    );
  });

  it('labels endpoints for all interfaces and creates exactly the policy of the specification [up-hostendpoints]', async () => {
    expect(await run('prepare-upgrade')).toEqual({
      status: 0,
      out: [
        'Label the host endpoints for all interfaces',
        '   change HostEndpoint "a": label netplug/host-endpoint-upgrade=',
        '   change HostEndpoint "b": label netplug/host-endpoint-upgrade=',
        'Create the temporary log-and-allow policy',
        '   create GlobalNetworkPolicy "allow-all-upgrade"',
        '',
      ].join('\n'),
      err: '',
    });
    expect(await labelsOf('HostEndpoint', 'a')).toEqual({ role: 'x', [LABEL]: '' });
    expect(await labelsOf('HostEndpoint', 'b')).toEqual({ [LABEL]: '' });
    expect(await labelsOf('HostEndpoint', 'c')).toBeUndefined();
    expect((await store.findResource(POLICY, signal))?.spec).toEqual({
      selector: `has(${LABEL})`,
      types: ['Ingress', 'Egress'],
      ingress: [{ action: 'Log' }, { action: 'Allow' }],
      egress: [{ action: 'Log' }, { action: 'Allow' }],
    });
  });

  it('only shows its steps with --dry-run, as text or JSON', async () => {
    const before = database.state();
    const { out } = await run('prepare-upgrade --dry-run');
    expect(out).toContain('1. Label the host endpoints for all interfaces\n   change HostEndpoint "a": label');
    const { stages } = JSON.parse((await run('prepare-upgrade --dry-run -o json')).out);
    expect(stages[0].steps[1]).toMatchObject({
      kind: 'write',
      before: { kind: 'HostEndpoint', metadata: { name: 'b' } },
      after: { metadata: { name: 'b', labels: { [LABEL]: '' } } },
    });
    expect(database.state()).toBe(before);
  });

  it('has nothing to do the second time, and resumes after an interruption', async () => {
    let writes = 0;
    const fault = (operation: string): { kind: 'unavailable-before' } | undefined =>
      operation === 'updateResource' && (writes += 1) === 2 ? { kind: 'unavailable-before' } : undefined;
    expect((await run('prepare-upgrade', 'kvv3', openMemoryStore(database, { fault }))).status).toBe(75);
    expect((await run('prepare-upgrade')).out).toBe(
      [
        'Label the host endpoints for all interfaces',
        '   change HostEndpoint "b": label netplug/host-endpoint-upgrade=',
        'Create the temporary log-and-allow policy',
        '   create GlobalNetworkPolicy "allow-all-upgrade"',
        '',
      ].join('\n'),
    );
    expect(await run('prepare-upgrade')).toEqual({ status: 0, out: 'nothing is left to do\n', err: '' });
  });

  it('is undone policy first, and keeps the labels that users set', async () => {
    await run('prepare-upgrade');
    expect((await run('prepare-upgrade --undo')).out).toBe(
      [
        'Delete the temporary policy',
        '   delete GlobalNetworkPolicy "allow-all-upgrade"',
        'Remove the upgrade label',
        '   change HostEndpoint "a": drop label netplug/host-endpoint-upgrade',
        '   change HostEndpoint "b": drop label netplug/host-endpoint-upgrade',
        '',
      ].join('\n'),
    );
    expect(await labelsOf('HostEndpoint', 'a')).toEqual({ role: 'x' });
    expect(await store.findResource(POLICY, signal)).toBeUndefined();
    expect((await run('prepare-upgrade --undo')).out).toBe('nothing is left to do\n');
  });

  it.each(['prepare-upgrade', 'prepare-upgrade --undo'])(
    'does not touch a policy that it did not create: %s',
    async (words) => {
      const spec = { selector: 'all()', types: ['Ingress'] } as const;
      await put({ apiVersion: 'netplug.io/v3', kind: POLICY.kind, metadata: { name: POLICY.name }, spec });
      const before = database.state();
      const { status, err } = await run(words);
      expect(status).toBe(73);
      expect(err).toContain('Choose another name with --policy');
      expect(database.state()).toBe(before);
      expect((await run('prepare-upgrade --policy mine --label example.org/up')).status).toBe(0);
      expect(await labelsOf('HostEndpoint', 'b')).toEqual({ 'example.org/up': '' });
    },
  );

  it('changes nothing while one of the endpoints cannot be read', async () => {
    database.damage({ kind: 'HostEndpoint', name: 'b' });
    const before = database.state();
    expect(await run('prepare-upgrade')).toMatchObject({ status: 65, out: '' });
    expect(database.state()).toBe(before);
  });
});

describe('netplugctl host-endpoints migrate', () => {
  beforeEach(async () => {
    await put(nodeOf('n1', { zone: 'a' }), hostEndpointOf('old', 'n1', { labels: { role: 'x', [LABEL]: '' } }));
  });

  it('carries out what it can, and finishes once the automatic endpoints exist [up-autohep]', async () => {
    expect(await run('migrate')).toEqual({
      status: 1,
      out: [
        'Copy the labels of the host endpoints onto their nodes',
        '   change Node "n1": label role=x',
        'Let the controllers make automatic host endpoints',
        '   create ControllersConfiguration "default"',
        'Delete the old host endpoints',
        '   wait: HostEndpoint "old" stays until netplug-orch-controllers has made HostEndpoint "n1-auto-hep" with the labels role=x',
        '',
      ].join('\n'),
      err: 'not finished: run the same command again when the last steps above are done\n',
    });
    expect(await labelsOf('Node', 'n1')).toEqual({ zone: 'a', role: 'x' });
    await put(automaticHostEndpointOf('n1', { zone: 'a', role: 'x' }));
    expect(await run('migrate')).toMatchObject({
      status: 0,
      out: 'Delete the old host endpoints\n   delete HostEndpoint "old"\n',
    });
    const { resources } = await store.listResources('HostEndpoint', signal);
    expect(resources.map(({ metadata }) => metadata.name)).toEqual(['n1-auto-hep']);
    expect((await run('migrate')).out).toBe('nothing is left to do\n');
  });

  it('waits for a user to label the nodes of the orchestrator before it changes anything', async () => {
    const before = database.state();
    const { status, out } = await run('migrate', 'orch');
    expect(status).toBe(1);
    expect(out).toBe(
      [
        'Copy the labels of the host endpoints onto their nodes',
        '   change Node "n1": label role=x',
        '     $ kubectl label node n1 role=x',
        '',
      ].join('\n'),
    );
    expect(database.state()).toBe(before);
  });

  it('deletes before the replacement exists only with --force', async () => {
    expect((await run('migrate --force')).status).toBe(0);
    expect((await store.listResources('HostEndpoint', signal)).resources).toEqual([]);
  });

  it('is refused, and changes nothing, when a label would be lost', async () => {
    await put(hostEndpointOf('other', 'n1', { labels: { zone: 'b' } }));
    const before = database.state();
    const { status, err } = await run('migrate');
    expect(status).toBe(65);
    expect(err).toContain('Node "n1": label zone is "a" there, and "b" at its host endpoint');
    expect(database.state()).toBe(before);
  });
});

/** Simulates a process that is killed after it has written `count` records of its progress. */
function endAfter(records: PlanRecords, writes: number): PlanRecords {
  let left = writes;
  return {
    ...records,
    save: async (name, text) => {
      if (left === 0) throw new Error('killed');
      left -= 1;
      await records.save(name, text);
    },
  };
}

describe('a migration of host endpoints that is interrupted', () => {
  const MOMENTS = [0, 1, 2, 3, 4, 5, 6];
  const NAMES = ['old', 'other'];
  const contents = async (): Promise<unknown> => [
    (await store.listResources('HostEndpoint', signal)).resources.map(({ metadata: { name, labels } }) => [
      name,
      labels,
    ]),
    await labelsOf('Node', 'n1'),
    (await store.findResource({ kind: 'ControllersConfiguration', name: 'default' }, signal))?.spec,
  ];
  beforeEach(async () => {
    await put(
      nodeOf('n1', { zone: 'a' }),
      ...NAMES.map((name) => hostEndpointOf(name, 'n1', { labels: { role: 'x' } })),
    );
  });

  it.each(MOMENTS)('is finished by the same command after a kill at record %i', async (moment) => {
    expect((await runKilled('migrate --force', moment)).status).not.toBe(0);
    expect(await run('migrate --force')).toMatchObject({ status: 0, err: '' });
    expect(await contents()).toEqual([
      [],
      { zone: 'a', role: 'x' },
      { controllers: { node: { hostEndpoint: { autoCreate: 'Enabled' } } } },
    ]);
    expect((await run('migrate --force')).out).toBe('nothing is left to do\n');
  });

  it.each(MOMENTS.slice(1))('is undone by --undo after a kill at record %i', async (moment) => {
    const before = await contents();
    await runKilled('migrate --force', moment);
    expect(await run('migrate --undo')).toMatchObject({ status: 0, err: '' });
    expect(await contents()).toEqual(before);
  });

  it.each(MOMENTS.slice(1))(
    'is undone by --undo after a kill at record %i and the same command again',
    async (moment) => {
      const before = await contents();
      await runKilled('migrate --force', moment);
      await run('migrate --force');
      expect(await run('migrate --undo')).toMatchObject({ status: 0, err: '' });
      expect(await contents()).toEqual(before);
    },
  );

  it.each(MOMENTS.slice(1))('is undone by --undo again after that was killed at record %i', async (moment) => {
    const before = await contents();
    await run('migrate --force');
    await runKilled('migrate --undo', moment);
    expect(await run('migrate --undo')).toMatchObject({ status: 0, err: '' });
    expect(await contents()).toEqual(before);
  });

  it('makes a new plan when the record of its plan is damaged', async () => {
    const records = planRecords;
    planRecords = { ...records, load: async () => Promise.resolve('{"format":') };
    const { status, err } = await run('migrate --force');
    expect(status).toBe(0);
    expect(err).toContain('making a new plan');
  });

  it('makes a new plan when an object of its plan was changed in the meantime', async () => {
    await runKilled('migrate --force', 3);
    const found = await store.findResource({ kind: 'HostEndpoint', name: 'other' }, signal);
    if (found === undefined) throw new Error('there is no such endpoint');
    await store.updateResource({ ...found, metadata: { ...found.metadata, labels: { role: 'x', more: 'y' } } }, signal);
    const { status, err } = await run('migrate --force');
    expect(status).toBe(0);
    expect(err).toContain('the object of "delete HostEndpoint "other"" was changed in the meantime; making a new plan');
    expect(await contents()).toMatchObject([[], { zone: 'a', role: 'x', more: 'y' }, {}]);
    expect(await run('migrate --undo')).toMatchObject({ status: 0, err: '' });
    expect(await contents()).toEqual([
      [
        ['old', { role: 'x' }],
        ['other', { role: 'x', more: 'y' }],
      ],
      { zone: 'a' },
      undefined,
    ]);
  });

  it('is not undone when an object was changed in the meantime, or without a record', async () => {
    expect(await run('migrate --undo')).toMatchObject({ status: 69, out: '' });
    await run('migrate --force');
    const found = await store.findResource({ kind: 'Node', name: 'n1' }, signal);
    if (found === undefined) throw new Error('there is no such node');
    await store.updateResource({ ...found, metadata: { ...found.metadata, labels: { role: 'y' } } }, signal);
    const before = database.state();
    expect((await run('migrate --undo')).err).toContain(
      'the object of "change Node "n1": label role=x" was changed in the meantime',
    );
    expect(database.state()).toBe(before);
  });

  it('is carried out with a warning when its progress cannot be recorded', async () => {
    const save = async (): Promise<never> => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' }));
    planRecords = { ...memoryPlanRecords(), save };
    const { status, err } = await run('migrate --force');
    expect([status, err]).toEqual([0, expect.stringMatching(/^warning: the progress is not recorded.*\n$/)]);
  });
});
