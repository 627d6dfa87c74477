import { beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { Store } from '../../../datastore/store.ts';

const never = new AbortController().signal;
let database: MemoryDatabase;
let store: Store;
beforeEach(() => {
  database = new MemoryDatabase();
  store = openMemoryStore(database);
});

async function run(argv: readonly string[], stdin = '', given?: Store): Promise<Ran> {
  const env = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };
  return callCtl(argv, { env, stdin, openStore: () => given ?? openMemoryStore(database) });
}

const pool = (name: string, cidr: string, more = ''): string =>
  `apiVersion: netplug.io/v3\nkind: IPPool\nmetadata:\n  name: ${name}\nspec:\n  cidr: ${cidr}\n${more}`;
const BLUE = pool('blue', '10.0.0.0/16');

async function show(kind: string, name: string): Promise<Record<string, Record<string, unknown>>> {
  return parse((await run(['get', kind, name, '-o', 'yaml'])).out);
}

/** Stores a resource as a newer release would have stored it. */
async function storeNewer(): Promise<void> {
  const newer = {
    apiVersion: 'netplug.io/v3',
    kind: 'BGPConfiguration',
    metadata: { name: 'default', labels: { a: '1' } },
    later: { outside: true },
    spec: {
      asNumber: 64513,
      later: { inside: [1, 2] },
      communities: [{ name: 'c', value: '1:2', later: 'in an item' }],
    },
  };
  await store.createResource(newer as never, never);
}
const NEWER = {
  later: { outside: true },
  spec: { later: { inside: [1, 2] }, communities: [{ name: 'c', later: 'in an item' }] },
};

describe('patch', () => {
  it.each([
    ['strategic', '{"spec":{"disabled":true}}'],
    ['merge', 'spec: {disabled: true}'],
    ['json', '[{"op":"replace","path":"/spec/disabled","value":true}]'],
  ])('changes a part: %s', async (type, text) => {
    await run(['apply', '-f', '-'], BLUE);
    const patch = ['patch', 'ippool', 'blue', '--type', type, '-p', text];
    expect(await run(patch)).toEqual({ status: 0, out: 'IPPool "blue" patched\n', err: '' });
    expect(await run(patch)).toEqual({ status: 0, out: 'IPPool "blue" unchanged\n', err: '' });
    expect((await show('pool', 'blue'))['spec']).toMatchObject({ cidr: '10.0.0.0/16', disabled: true });
  });

  it('reads the patch from a file, too', async () => {
    await run(['apply', '-f', '-'], BLUE);
    const { out } = await run(['patch', 'pool/blue', '--patch-file', '-'], 'spec:\n  natOutgoing: true\n');
    expect(out).toBe('IPPool "blue" patched\n');
  });

  it.each([
    [['-p', '{"spec":{"cidr":"10.0.0.1/16"}}'], 65, 'allowed is a CIDR without host bits'],
    [['-p', '{"spec":{"cidr":"10.1.0.0/16"}}'], 65, 'spec.cidr: cannot be changed from 10.0.0.0/16 to 10.1.0.0/16'],
    [['-p', '{"spec":{"disable":true}}'], 65, 'spec.disable: is not a known field (did you mean "disabled"?)'],
    [['-p', '{"metadata":{"name":"red"}}'], 65, 'a resource keeps its name'],
    [['-p', '{"metadata":{"resourceVersion":"0"}}'], 75, 'it was changed since it was read'],
    [['-p', '{"spec":'], 65, '--patch:1:'],
    [['--type', 'json', '-p', '[{"op":"remove","path":"/spec/none"}]'], 65, '[0] remove: /spec/none does not exist'],
    [['--type', 'json', '-p', '[{"op":"remove","path":""}]'], 65, 'allowed is an object'],
    [[], 64, 'neither --patch nor --patch-file is given'],
  ])('is refused, and says why: %j', async (words, status, message) => {
    await run(['apply', '-f', '-'], BLUE);
    const before = database.state();
    const refused = await run(['patch', 'ippool', 'blue', ...words]);
    expect(refused).toMatchObject({ status, out: '', err: expect.stringContaining(message) });
    expect(database.state()).toBe(before);
  });

  it('is repeated on top of what another writer changed meanwhile', async () => {
    await run(['apply', '-f', '-'], BLUE);
    let others = 3;
    const slow = openMemoryStore(database, {
      pause: async (operation) => {
        if (operation !== 'updateResource' || (others -= 1) < 0) return;
        await run(['label', 'pool', 'blue', `by=${String(others)}`, '--overwrite']);
      },
    });
    expect(await run(['patch', 'pool', 'blue', '-p', 'spec: {disabled: true}'], '', slow)).toMatchObject({ status: 0 });
    expect(await show('pool', 'blue')).toMatchObject({ metadata: { labels: { by: '0' } }, spec: { disabled: true } });
  });
});

describe('label and annotate', () => {
  beforeEach(async () => run(['apply', '-f', '-'], `${BLUE}---\n${pool('green', '10.1.0.0/16')}`));

  it('set, remove, and say when there was nothing to do', async () => {
    expect((await run(['label', 'ippool', 'blue', 'rack=r1', 'empty='])).out).toBe('IPPool "blue" labelled\n');
    expect((await run(['label', 'ippool', 'blue', 'rack=r1'])).out).toBe('IPPool "blue" unchanged\n');
    expect((await run(['label', 'ippool', 'blue', 'rack-'])).out).toBe('IPPool "blue" labelled\n');
    expect((await run(['annotate', 'pool/blue', 'example.org/a=b c=d'])).out).toBe('IPPool "blue" annotated\n');
    expect((await show('pool', 'blue'))['metadata']).toMatchObject({
      labels: { empty: '' },
      annotations: { 'example.org/a': 'b c=d' },
    });
  });

  it('replace another value only when asked to', async () => {
    await run(['label', 'ippool', 'blue', 'rack=r1']);
    expect(await run(['label', 'ippool', 'blue', 'rack=r2'])).toMatchObject({
      status: 73,
      err: expect.stringContaining('Cannot set label "rack": it is "r1", not "r2"'),
    });
    expect(await run(['label', 'ippool', 'blue', 'rack=r2', '--overwrite'])).toMatchObject({ status: 0 });
  });

  it('reach several by name, selector or all', async () => {
    expect((await run(['label', 'pools', 'blue', 'green', 'tier=x'])).out).toBe(
      'IPPool "blue" labelled\nIPPool "green" labelled\n',
    );
    await run(['label', 'pools', 'blue', 'rack=r1']);
    expect((await run(['label', 'pools', '-l', 'rack == "r1"', 'chosen=yes'])).out).toBe('IPPool "blue" labelled\n');
    expect((await run(['label', 'pools', '--all', 'tier-'])).out).toBe(
      'IPPool "blue" labelled\nIPPool "green" labelled\n',
    );
  });

  it.each([
    [['pool', 'blue', 'rack'], 'neither KEY=VALUE nor KEY- is given'],
    [['pool', 'blue', 'a=b', 'a-'], '"a" is named twice'],
    [['pool', 'a=b'], 'no name is given'],
    [['pool', 'blue', 'a=b', '--all'], 'both names and --all or --selector are given'],
    [['wep', 'blue', 'a=b'], 'Cannot change a WorkloadEndpoint'],
    [['pool', 'blue', 'a b=c'], 'allowed is a label name'],
    [['pool', '-l', 'rack=r1', 'a=b'], 'allowed is a selector'],
  ])('are refused, and say why: %j', async (words, message) => {
    const { status, err } = await run(['label', ...words]);
    expect(status).not.toBe(0);
    expect(err.toLowerCase()).toContain(message.toLowerCase());
  });
});

describe('a dry run', () => {
  const DRY = '--dry-run';

  it('makes every check, says the verdict and writes nothing', async () => {
    await run(['apply', '-f', '-'], BLUE);
    const before = database.state();
    const green = pool('green', '10.1.0.0/16');
    expect((await run(['create', '-f', '-', DRY], green)).out).toBe('IPPool "green" created (dry run)\n');
    expect((await run(['apply', '-f', '-', DRY], green)).out).toBe('IPPool "green" created (dry run)\n');
    expect((await run(['apply', '-f', '-', DRY], `${BLUE}  disabled: true\n`)).out).toBe(
      'IPPool "blue" configured (dry run)\n',
    );
    expect((await run(['replace', '-f', '-', DRY], BLUE)).out).toBe('IPPool "blue" unchanged (dry run)\n');
    expect((await run(['patch', 'pool', 'blue', '-p', 'spec: {disabled: true}', DRY])).out).toBe(
      'IPPool "blue" patched (dry run)\n',
    );
    expect((await run(['label', 'pool', 'blue', 'a=b', DRY])).out).toBe('IPPool "blue" labelled (dry run)\n');
    expect((await run(['delete', 'pool', 'blue', DRY])).out).toBe('IPPool "blue" deleted (dry run)\n');
    expect(await run(['create', '-f', '-', DRY], BLUE)).toMatchObject({ status: 73 });
    expect(await run(['create', '-f', '-', DRY], pool('sub', '10.0.1.0/24'))).toMatchObject({ status: 65 });
    expect(await run(['delete', 'pool', 'red', DRY])).toMatchObject({ status: 66 });
    expect(await run(['delete', 'ipreservation', 'red', DRY])).toMatchObject({ status: 66 });
    expect(database.state()).toBe(before);
  });
});

describe('diff', () => {
  it('shows what apply would change, and nothing afterwards', async () => {
    await run(['apply', '-f', '-'], BLUE);
    const stdin = `${BLUE}  natOutgoing: true\n---\n${pool('green', '10.1.0.0/16')}`;
    const { status, out } = await run(['diff', '-f', '-'], stdin);
    expect(status).toBe(1);
    await expect(out).toMatchFileSnapshot('../../../../test/golden/ctl/diff.txt');
    await run(['apply', '-f', '-'], stdin);
    expect(await run(['diff', '-f', '-'], stdin)).toEqual({ status: 0, out: '', err: '' });
  });
});

describe('several resources', () => {
  it('fail one by one, and are counted', async () => {
    await run(['apply', '-f', '-'], BLUE);
    const stdin = [BLUE, pool('green', '10.1.0.0/16'), pool('sub', '10.0.1.0/24')].join('---\n');
    const { status, out, err } = await run(['create', '-f', '-'], stdin);
    expect({ status, out }).toEqual({ status: 73, out: 'IPPool "green" created\n' });
    expect(err).toMatch(/^Cannot create IPPool "blue": it exists already\n[^]*\n2 of 3 failed\n$/);
    expect((await run(['create', '-f', '-', '--skip-exists'], BLUE)).out).toBe(
      'IPPool "blue" exists already, left as it is\n',
    );
  });

  it('are deleted by selector or all at once', async () => {
    await run(['apply', '-f', '-'], `${BLUE}---\n${pool('green', '10.1.0.0/16')}`);
    await run(['label', 'pool', 'blue', 'old=yes']);
    expect((await run(['delete', 'pools', '-l', 'has(old)'])).out).toBe('IPPool "blue" deleted\n');
    expect((await run(['delete', 'pools', '--all'])).out).toBe('IPPool "green" deleted\n');
    expect(await run(['delete', 'pools'])).toMatchObject({ status: 64 });
  });
});

describe('what a newer release stored', () => {
  const written = 'apiVersion: netplug.io/v3\nkind: BGPConfiguration\nmetadata: {name: default}\n';
  const communities = 'communities: [{name: c, value: "3:4"}]';

  it.each([
    ['apply', ['apply', '-f', '-'], `${written}spec: {asNumber: 64514, ${communities}}\n`],
    ['replace', ['replace', '-f', '-'], `${written}spec: {asNumber: 64514, ${communities}}\n`],
    ['a merge patch', ['patch', 'bgpconfig', 'default', '--type', 'merge', '-p', 'spec: {asNumber: 64514}'], ''],
    ['a strategic patch', ['patch', 'bgpconfig', 'default', '-p', `spec: {asNumber: 64514, ${communities}}`], ''],
    [
      'a JSON patch',
      ['patch', 'bgpconfig', 'default', '--type=json', '-p', '[{op: replace, path: /spec/asNumber, value: 64514}]'],
      '',
    ],
    ['label', ['label', 'bgpconfig', 'default', 'b=2'], ''],
    ['annotate', ['annotate', 'bgpconfig', 'default', 'b=2'], ''],
  ])('survives %s of this one, at every depth', async (verb, argv, stdin) => {
    await storeNewer();
    expect(await run(argv, stdin)).toMatchObject({ status: 0, err: '' });
    const asNumber = ['label', 'annotate'].includes(verb) ? 64513 : 64514;
    expect(await show('bgpconfig', 'default')).toMatchObject(NEWER);
    expect(await show('bgpconfig', 'default')).toMatchObject({ spec: { asNumber } });
  });

  it('can be patched, but not added to', async () => {
    await storeNewer();
    const patch = async (text: string): Promise<Ran> =>
      run(['patch', 'bgpconfig', 'default', '--type', 'merge', '-p', text]);
    expect(await patch('spec: {later: {inside: [3]}}')).toMatchObject({ status: 0 });
    expect(await show('bgpconfig', 'default')).toMatchObject({ spec: { later: { inside: [3] } } });
    expect(await patch('spec: {later: null}')).toMatchObject({ status: 0 });
    expect((await show('bgpconfig', 'default'))['spec']).not.toHaveProperty('later');
    expect(await patch('spec: {another: 1}')).toMatchObject({
      status: 65,
      err: expect.stringContaining('spec.another: is not a known field'),
    });
  });
});

describe('what people only read', () => {
  const information = { apiVersion: 'netplug.io/v3', kind: 'ClusterInformation', metadata: { name: 'default' } };
  const profile = 'apiVersion: netplug.io/v3\nkind: Profile\nmetadata: {name: netplug-default-allow}\n';
  beforeEach(async () => {
    await store.createResource({ ...information, spec: { datastoreReady: true } } as never, never);
  });

  it.each([
    [['create', '-f', '-'], profile],
    [['apply', '-f', '-'], profile],
    [['apply', '-f', '-', '--dry-run'], profile],
    [['label', 'profile', 'netplug-default-allow', 'a=b'], ''],
    [['delete', 'profile', 'netplug-default-allow'], ''],
    [['delete', 'profile', 'netplug-default-allow', '--dry-run'], ''],
    [['patch', 'clusterinfo', 'default', '-p', '{"spec":{"datastoreReady":false}}'], ''],
    [['delete', 'clusterinfo', 'default', '--dry-run'], ''],
  ])('is refused by %j', async (argv, stdin) => {
    const before = database.state();
    const { status, err } = await run(argv, stdin);
    expect(err).toContain('resource/not-writable');
    expect(status).toBe(69);
    expect(database.state()).toBe(before);
  });

  it('may be applied as it is', async () => {
    const { out } = await run(['get', 'clusterinfo', 'default', '-o', 'yaml']);
    expect(await run(['apply', '-f', '-'], out)).toMatchObject({ status: 0, err: '' });
  });
});

describe('a pool that an Installation lists', () => {
  const OWNED = { 'app.kubernetes.io/managed-by': 'netplug-operator' };
  const installation = async (spec: object): Promise<void> => {
    const metadata = { name: 'default' };
    await store.createResource({ apiVersion: 'netplug.io/v3', kind: 'Installation', metadata, spec } as never, never);
  };
  const listing = async (more: object = {}): Promise<void> => {
    const { name, ...rest } = { name: 'blue', ...more };
    await installation({
      calicoNetwork: { ipPools: [{ cidr: '10.9.0.0/16' }, { cidr: '10.0.0.0/16', name, ...rest }] },
    });
  };
  const owned = async (annotations = {}): Promise<void> => {
    await run(['apply', '-f', '-'], pool('blue', '10.0.0.0/16', '  natOutgoing: true\n  vxlanMode: Always\n'));
    const stored = (await store.findResource({ kind: 'IPPool', name: 'blue' }, never))!;
    await store.updateResource({ ...stored, metadata: { ...stored.metadata, labels: OWNED, annotations } }, never);
  };
  const patch = async (text: string): Promise<Ran> => run(['patch', 'ippool', 'blue', '-p', text]);

  it('is not changed where the operator would write it back, and the field to set instead is named', async () => {
    await owned();
    await listing();
    for (const [change, field] of [
      ['disabled: true', 'disabled'],
      ['natOutgoing: false', 'natOutgoing'],
      ['vxlanMode: CrossSubnet', 'encapsulation'],
    ]) {
      const { status, out, err } = await patch(`spec: {${change}}`);
      expect({ status, out }).toEqual({ status: 69, out: '' });
      expect(err).toContain(`spec.${change!.split(':')[0]!} of IPPool "blue": Installation "default" lists the pool`);
      expect(err).toContain(`Set spec.calicoNetwork.ipPools[1].${field!} of Installation "default" instead`);
    }
    const applied = await run(['apply', '-f', '-'], pool('blue', '10.0.0.0/16', '  natOutgoing: false\n'));
    expect(applied.err).toContain('code: resource/owned');
    expect((await patch('spec: {allowedUses: [Workload]}')).err).not.toContain('instead');
    expect((await show('pool', 'blue'))['spec']).toMatchObject({ disabled: false, natOutgoing: true });
  });

  it('is changed in what the operator leaves: labels, and what the Installation says too', async () => {
    await owned();
    await listing({ disabled: true });
    expect(await run(['label', 'ippool', 'blue', 'zone=a'])).toMatchObject({ status: 0 });
    expect(await patch('spec: {disabled: true}')).toMatchObject({ status: 0 });
    expect((await patch('spec: {disabled: false}')).err).toContain('code: resource/owned');
  });

  it('is not deleted before the Installation leaves it out', async () => {
    await owned();
    await listing();
    const { err } = await run(['delete', 'ippool', 'blue']);
    expect(err).toContain('Remove spec.calicoNetwork.ipPools[1] from Installation "default" first');
    expect(await show('pool', 'blue')).toMatchObject({ spec: { disabled: false } });
  });

  it('is not deleted as the last one where the Installation names none, because the operator would create another', async () => {
    await owned();
    await installation({});
    await run(['apply', '-f', '-'], pool('green', '10.1.0.0/16'));
    expect(await run(['delete', 'ippool', 'green'])).toMatchObject({ status: 0 });
    for (const mode of [[], ['--dry-run']]) {
      const { status, err } = await run(['delete', 'ippool', 'blue', ...mode]);
      expect({ status, err }).toMatchObject({ status: 69, err: expect.stringContaining('this one is the last') });
      expect(err).toContain('Set spec.calicoNetwork.ipPools of Installation "default" first');
    }
    expect(await show('pool', 'blue')).toMatchObject({ spec: { disabled: false } });
  });

  it.each([
    ['wants none', { calicoNetwork: { ipPools: [] } }],
    ['leaves addresses to host-local', { cni: { ipam: { type: 'HostLocal' } } }],
  ])('is deleted as the last one where the Installation %s', async (_, spec) => {
    await owned();
    await installation(spec);
    expect(await run(['delete', 'ippool', 'blue'])).toMatchObject({ status: 0 });
  });

  it.each<[string, () => Promise<void>]>([
    ['is listed under another name', async () => listing({ name: 'other' }).then(async () => owned())],
    ['is listed with another range', async () => listing({ cidr: '10.1.0.0/16' }).then(async () => owned())],
    ['has no Installation', owned],
  ])('is changed and deleted as others where it %s', async (_, prepare) => {
    await prepare();
    expect(await patch('spec: {disabled: true}')).toMatchObject({ status: 0 });
    expect(await run(['delete', 'ippool', 'blue'])).toMatchObject({ status: 0 });
  });

  it('is changed, and not deleted, where an annotation leaves it to others: the operator would create it', async () => {
    await owned({ 'netplug.io/operator': 'unmanaged' });
    await listing();
    const alone = JSON.stringify({ metadata: { annotations: null }, spec: { natOutgoing: false } });
    expect((await run(['patch', 'ippool', 'blue', '--type', 'merge', '-p', alone])).err).toContain('resource/owned');
    expect(await patch('spec: {disabled: true}')).toMatchObject({ status: 0 });
    expect((await run(['delete', 'ippool', 'blue'])).err).toContain('resource/owned');
  });
});
