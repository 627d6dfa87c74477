import { beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';

let database: MemoryDatabase;

async function run(argv: readonly string[], stdin = ''): Promise<Ran> {
  const env = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };
  return callCtl(argv, { env, stdin, openStore: () => openMemoryStore(database) });
}

const RESOURCES = `
apiVersion: netplug.io/v3
kind: IPPool
metadata: {name: blue, labels: {rack: r1, tier: gold}}
spec: {cidr: 10.1.0.0/16, blockSize: 28}
---
apiVersion: netplug.io/v3
kind: IPPool
metadata: {name: green}
spec: {cidr: 10.0.0.0/16, natOutgoing: true}
---
apiVersion: netplug.io/v3
kind: IPPool
metadata: {name: six, labels: {rack: r2}}
spec: {cidr: 'fd00::/48'}
---
apiVersion: netplug.io/v3
kind: IPReservation
metadata: {name: first}
spec: {reservedCIDRs: [10.0.0.0/30]}
---
apiVersion: netplug.io/v3
kind: NetworkSet
metadata: {name: office, namespace: shop}
spec: {nets: [192.0.2.0/24]}
---
apiVersion: netplug.io/v3
kind: NetworkSet
metadata: {name: office}
spec: {nets: [198.51.100.0/24]}
`;

beforeEach(async () => {
  database = new MemoryDatabase();
  const { status, err } = await run(['create', '-f', '-'], RESOURCES);
  if (status !== 0) throw new Error(err);
});

describe('get', () => {
  it('writes no table of several that are not there', async () => {
    const none = await run(['get', 'ippool', 'no', 'nope']);
    expect(none).toMatchObject({ out: '', err: expect.stringMatching(/"no"[^]*"nope"/) });
    expect((await run(['get', 'ippool', 'blue', 'nope'])).out).toMatch(/^NAME .*\nblue /);
    expect(JSON.parse((await run(['get', 'ippool', 'no', 'nope', '-o', 'json'])).out)).toMatchObject({ items: [] });
  });

  it('writes tables as recorded', async () => {
    const calls = [
      ['get', 'ippools'],
      ['get', 'ippools', '-o', 'wide'],
      ['get', 'ippools', '--show-labels', '--no-headers'],
      ['get', 'ippools', '--sort-by', '.spec.cidr'],
      [
        'get',
        'ippools',
        '--sort-by',
        'spec.blockSize',
        '-o',
        'custom-columns=NAME,BITS:.spec.blockSize,R:.metadata.labels.rack',
      ],
      ['get', 'ippools,ipreservations,nodes'],
      ['get', 'networksets'],
      ['get', 'all', '-o', 'name'],
      ['get', 'ippool/blue', 'ipreservation/first'],
    ];
    const texts: string[] = [];
    for (const argv of calls) {
      const { out, err } = await run(argv);
      texts.push(`$ netplugctl ${argv.join(' ')}\n${out}${err}`);
    }
    await expect(texts.join('\n')).toMatchFileSnapshot('../../../../test/golden/ctl/get.txt');
  });

  it.each([
    [['ippools', '-o', 'jsonpath={.items[*].metadata.name}'], 'blue green six'],
    [['ippool', 'blue', '-o', 'jsonpath={.spec.cidr}'], '10.1.0.0/16'],
    [['ippools', '-l', "rack == 'r1'", '-o', 'name'], 'ippool/blue\n'],
    [['ippools', '-l', '!has(rack)', '-o', 'name'], 'ippool/green\n'],
    [['networksets', '-n', 'shop', '-o', 'jsonpath={.items[*].spec.nets[*]}'], '192.0.2.0/24'],
    [['networkset', 'office', '-o', 'jsonpath={.spec.nets[0]}'], '198.51.100.0/24'],
    [['networkset', 'office', '-n', 'shop', '-o', 'jsonpath={.spec.nets[0]}'], '192.0.2.0/24'],
    [['networksets', '-A', '-o', 'jsonpath={range .items[*]}{.metadata.namespace}{"\\n"}{end}'], 'default\nshop\n'],
  ])('%j', async (words, out) => {
    expect(await run(['get', ...words])).toEqual({ status: 0, out, err: '' });
  });

  it.each([
    [['ippools', '-o', 'jsonpath={.items[*}'], '"]" is missing, at character 10'],
    [['ippools', '-o', 'jsn'], 'did you mean "json"'],
    [['ippools', '-o', 'custom-columns=NAME,CIDER'], 'did you mean "CIDR"'],
    [['ippools', '-o', 'custom-columns=:.a'], 'has no title'],
    [['ippools', '--sort-by', '.a b'], 'The path ".a b" cannot be read'],
    [['ippools', '-l', 'rack=r1'], 'Allowed is a selector'],
    [['ippool/a/b'], 'allowed is KIND/NAME'],
    [['ippools', '-A', '-n', 'x'], "cannot be used with option '-n"],
    [['ippools,nodes', '--watch'], 'several kinds are named'],
    [['wep', '--watch'], 'endpoints cannot be followed'],
  ])('refuses %j', async (words, message) => {
    const { status, out, err } = await run(['get', ...words]);
    expect({ status, out }).toEqual({ status: 64, out: '' });
    expect(err).toContain(message);
  });
});
