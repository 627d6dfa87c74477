// Commands on resources, as people call them, on both datastores: what they write is the same on either.
import { spawn } from 'node:child_process';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { systemClock } from '../../src/base/clock.ts';
import { systemRandom } from '../../src/base/random.ts';
import { newCluster } from '../../src/datastore/keep-cluster-information.ts';
import { callCtl, type Ran } from '../support/ctl.ts';
import { CTL_DATASTORES, type CtlDatastore, type CtlRun, MAIN, spawnCtl } from '../support/ctl-datastores.ts';
import { until } from '../support/until.ts';

const POOLS = ['-f', 'examples/ippools.yaml', '-f', 'examples/ipreservation.yaml'];
const never = new AbortController().signal;

const pool = (name: string, cidr: string, more = ''): string =>
  `apiVersion: netplug.io/v3\nkind: IPPool\nmetadata: {name: ${name}}\nspec:\n  cidr: ${cidr}\n${more}`;
const BLUE = pool('blue', '10.0.0.0/16');
const CLUSTER = newCluster();
const information = (datastoreReady: boolean): string =>
  JSON.stringify({ ...CLUSTER, spec: { ...CLUSTER.spec, datastoreReady } });

describe.each(CTL_DATASTORES)('netplugctl on $type', ({ type, start }) => {
  let datastore: CtlDatastore;
  const run: CtlDatastore['run'] = async (...args) => datastore.run(...args);
  const apply = async (stdin: string, ...more: string[]): Promise<CtlRun> =>
    run(['apply', '-f', '-', ...more], { stdin });
  beforeAll(async () => {
    datastore = await start();
  });
  afterAll(async () => datastore[Symbol.asyncDispose]());
  beforeEach(async () => datastore.empty());

  it('applies the examples, twice, and accepts its own output', async () => {
    const first = await run(['apply', ...POOLS]);
    expect(first).toMatchObject({ status: 0, stderr: '' });
    expect(first.stdout).toContain('IPPool "default-ipv4-pool" created\n');
    const second = await run(['apply', ...POOLS]);
    expect(second.stdout).toBe(first.stdout.replaceAll('created', 'unchanged'));
    const { stdout } = await run(['get', 'ippools', '-o', 'yaml']);
    expect(parse(stdout)).toMatchObject({ kind: 'IPPoolList' });
    expect((await apply(stdout)).stdout).toMatch(/^(IPPool "[^"]+" unchanged\n)+$/);
  });

  it('answers a program of its own as it answers a call in the process', async () => {
    const calls = [
      { argv: ['apply', '-f', '-'], stdin: BLUE },
      { argv: ['get', 'ippools', '-o', 'wide'], stdin: '' },
      { argv: ['delete', 'ippool', 'red'], stdin: '' },
    ];
    await apply(BLUE);
    for (const { argv, stdin } of calls)
      expect(await spawnCtl(argv, { stdin, env: datastore.env })).toEqual(await run(argv, { stdin }));
  });

  it('prints the same on both datastores', { timeout: 240_000 }, async () => {
    await datastore.store.createResource(CLUSTER, never);
    const said: string[] = [];
    const session: readonly [words: readonly string[], stdin?: string][] = [
      [['apply', '-f', '-', '--dry-run'], BLUE],
      [['apply', '-f', '-'], `${BLUE}---\n${pool('sub', '10.0.1.0/24')}---\n${pool('green', '10.1.0.0/16')}`],
      [['diff', '-f', '-'], `${BLUE}  natOutgoing: true\n`],
      [['create', '-f', '-'], BLUE],
      [['create', '-f', '-', '--skip-exists'], BLUE],
      [['patch', 'ippool', 'blue', '-p', '{"spec":{"disabled":true}}']],
      [['patch', 'ippool', 'blue', '--type', 'json', '-p', '[{"op":"test","path":"/spec/disabled","value":false}]']],
      [['label', 'ippool', 'blue', 'rack=r1']],
      [['label', 'ippool', 'blue', 'rack=r2']],
      [['annotate', 'ippools', '--all', 'example.org/owner=shop', '--dry-run']],
      [['replace', '-f', '-'], `${BLUE}  natOutgoing: true\n`],
      [['get', 'ippools', '-o', 'wide', '--show-labels']],
      [['get', 'ippools', '-o', 'custom-columns=NAME,BITS:.spec.blockSize', '--sort-by', '.spec.cidr']],
      [['get', 'ippool', 'red']],
      [['apply', '-f', '-'], information(true)],
      [['apply', '-f', '-'], information(false)],
      [['apply', '-f', '-', '--dry-run'], information(false)],
      [['delete', 'ippool', 'blue', 'red', '--dry-run']],
      [['delete', 'ippools', '--all']],
    ];
    for (const [words, stdin = ''] of session) {
      const { status, stdout, stderr } = await run(words, { stdin });
      said.push(
        `$ netplugctl ${words.join(' ')}\n${stdout}${stderr}${status === 0 ? '' : `(status ${String(status)})\n`}`,
      );
    }
    await expect(said.join('\n')).toMatchFileSnapshot('../golden/ctl/resources.txt');
  });

  /** In this process, so that many run at once. */
  const call = async (argv: readonly string[], stdin = ''): Promise<Ran> =>
    callCtl(argv, {
      env: datastore.env,
      stdin,
      openStore: datastore.connect,
      clock: systemClock,
      random: systemRandom,
    });

  it('loses no change when 64 processes write at once', async () => {
    await apply(BLUE);
    const labelling = Array.from({ length: 32 }, async (_, index) =>
      call(['label', 'ippool', 'blue', `w${String(index)}=x`, '--timeout', '100']),
    );
    const applying = Array.from({ length: 32 }, async (_, index) =>
      call(['apply', '-f', '-', '--timeout', '100'], pool(`p${String(index)}`, `10.${String(index + 1)}.0.0/16`)),
    );
    const done = await Promise.all([...labelling, ...applying]);
    expect(done.filter(({ status }) => status !== 0)).toEqual([]);
    const { resources } = await datastore.store.listResources('IPPool', never);
    expect(resources).toHaveLength(33);
    const { labels = {} } = resources.find(({ metadata }) => metadata.name === 'blue')?.metadata ?? {};
    expect(Object.keys(labels)).toHaveLength(32);
  });

  it('accepts at most one of several overlapping pools created concurrently', async () => {
    for (let round = 0; round < 6; round += 1) {
      // Each holds all, or a part, of the next.
      const cidrs = [16, 17, 18, 20, 24].map((bits) => `10.${String(50 + round)}.0.0/${String(bits)}`);
      const applied = await Promise.all(
        cidrs.map(async (cidr, at) =>
          call(['create', '-f', '-', '--timeout', '100'], pool(`o${String(round)}-${String(at)}`, cidr)),
        ),
      );
      const { resources } = await datastore.store.listResources('IPPool', never);
      const accepted = applied.filter(({ status }) => status === 0);
      expect(accepted.length).toBeLessThanOrEqual(1);
      expect(resources.filter(({ metadata }) => metadata.name.startsWith(`o${String(round)}-`))).toHaveLength(
        accepted.length,
      );
      expect(applied.filter(({ status, err }) => status !== 0 && !err.includes('overlaps'))).toEqual([]);
    }
  });

  it('keeps unknown fields of a newer release, also nested ones', async () => {
    const newer = {
      apiVersion: 'netplug.io/v3',
      kind: 'BGPConfiguration',
      metadata: { name: 'default' },
      spec: { asNumber: 64513, later: { deep: [1] }, communities: [{ name: 'c', value: '1:2', later: 'x' }] },
    };
    await datastore.store.createResource(newer as never, never);
    const written = 'apiVersion: netplug.io/v3\nkind: BGPConfiguration\nmetadata: {name: default}\n';
    const spec = 'spec: {asNumber: 64514, communities: [{name: c, value: "3:4"}]}\n';
    for (const [words, stdin] of [
      [['apply', '-f', '-', '--force-conflicts'], written + spec],
      [['replace', '-f', '-'], written + spec.replace('64514', '64515')],
      [['patch', 'bgpconfig', 'default', '-p', '{"spec":{"asNumber":64516}}'], ''],
      [['label', 'bgpconfig', 'default', 'a=b'], ''],
    ] as const) {
      expect(await run(words, { stdin })).toMatchObject({ status: 0 });
      const stored = await datastore.store.findResource({ kind: 'BGPConfiguration', name: 'default' }, never);
      expect(stored?.spec).toMatchObject({ later: { deep: [1] }, communities: [{ name: 'c', later: 'x' }] });
    }
    const stored = await datastore.store.findResource({ kind: 'BGPConfiguration', name: 'default' }, never);
    expect(stored).toMatchObject({ metadata: { labels: { a: 'b' } }, spec: { asNumber: 64516 } });
  });

  it('watches until it is stopped', async () => {
    await apply(BLUE);
    const watching = spawn(process.execPath, [MAIN, 'watch', 'ippools', '-o', 'name'], {
      argv0: 'netplugctl',
      env: datastore.env,
    });
    let printed = '';
    watching.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
    const ended = new Promise((done) => watching.on('close', done));
    await until(
      async () => Promise.resolve(printed.includes('ADDED ippool/blue')),
      () => printed,
    );
    await run(['label', 'ippool', 'blue', 'rack=r1']);
    await apply(pool('green', '10.1.0.0/16'));
    await run(['delete', 'ippool', 'green']);
    await until(
      async () => Promise.resolve(printed.includes('DELETED')),
      () => printed,
    );
    watching.kill('SIGINT');
    expect(await ended).toBe(0);
    // A pool is disabled before it is deleted.
    expect(printed.replaceAll('MODIFIED ippool/green\n', '')).toBe(
      'ADDED ippool/blue\nMODIFIED ippool/blue\nADDED ippool/green\nDELETED ippool/green\n',
    );
  });

  it.skipIf(type === 'kv')('names the owner of a field that two want to write', async () => {
    await apply(`${BLUE}  disabled: true\n`, '--field-manager', 'the-team');
    const refused = await apply(`${BLUE}  disabled: false\n`);
    expect(refused).toMatchObject({ status: 69, stderr: expect.stringContaining('spec.disabled ("the-team")') });
    expect((await apply(`${BLUE}  disabled: false\n`, '--force-conflicts')).stdout).toBe('IPPool "blue" configured\n');
    // What is left out and belongs to others stays.
    await apply(`${BLUE}  natOutgoing: true\n`, '--field-manager', 'another');
    expect((await apply(BLUE)).status).toBe(0);
    const stored = await datastore.store.findResource({ kind: 'IPPool', name: 'blue' }, never);
    expect(stored?.spec).toMatchObject({ natOutgoing: true });
  });

  it('diffs exactly what apply then changes', async () => {
    const steps: readonly [string, ...string[]][] = [
      [`${BLUE}  natOutgoing: true\n  disabled: true\n`],
      [`${BLUE}  natOutgoing: true\n  disabled: true\n`, '--field-manager', 'the-team'],
      [BLUE],
      [BLUE.replace('{name: blue}', '{name: blue, labels: {rack: r1}}')],
      [BLUE],
      [`${BLUE}  disabled: false\n`],
      [`${BLUE}  disabled: false\n`, '--force-conflicts'],
    ];
    const outcomes: string[] = [];
    for (const [stdin, ...more] of steps) {
      const { status: difference } = await run(['diff', '-f', '-', ...more], { stdin });
      const { stdout } = await apply(stdin, ...more);
      outcomes.push(`${String(difference)} ${/\w+$/.exec(stdout.trim())?.[0] ?? 'refused'}`);
    }
    expect(outcomes).toEqual(
      type === 'kv'
        ? ['1 created', '0 unchanged', '1 configured', '1 configured', '0 unchanged', '0 unchanged', '0 unchanged']
        : ['1 created', '0 unchanged', '0 unchanged', '1 configured', '1 configured', '69 refused', '1 configured'],
    );
  });
});
