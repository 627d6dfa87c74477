import { expect, it } from 'vitest';
import { virtualClock } from '../../../base/clock.ts';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { MACHINE, nodeOf } from '../../../../test/support/fixtures.ts';
import { IpamBench } from '../../../../test/support/ipam-bench.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { NodeName } from '../../../model/names.ts';

const since = '2026-12-01T09:00:00Z';

async function run(ipam: IpamBench, argv: string, now = since): Promise<Ran> {
  return callCtl(argv.split(' '), {
    env: { KV_ENDPOINTS: 'http://127.0.0.1:2379' },
    clock: virtualClock(Date.parse(now)),
    openStore: () => openMemoryStore(ipam.database),
  });
}

it('netplugctl node status --all and doctor --cluster show what agents report, and which has never reported', async () => {
  const ipam = await IpamBench.with(nodeOf('n1'), nodeOf('n2'), nodeOf('n3'));
  const store = openMemoryStore(ipam.database);
  const problems = [
    { code: 'plugin/shadowed', severity: 'error', text: 'it sorts \u001B[2J first', remedy: 'Remove it', since },
    { code: 'network/bgp', severity: 'warning', text: 'no session', since },
  ] as const;
  await store.publishReport(
    'n1' as NodeName,
    { release: 'v3.27.0', reportedAt: since, problems, more: 4 },
    ipam.signal,
  );
  await store.publishReport('n2' as NodeName, { release: 'v3.27.0', reportedAt: since, problems: [] }, ipam.signal);
  await store.claimName('n3' as NodeName, { machine: MACHINE, mayReplace: () => false }, ipam.signal);
  await store.publishReport('gone' as NodeName, { problems }, ipam.signal);
  const { out, status } = await run(ipam, 'node status --all');
  expect(status).toBe(1);
  await expect(out).toMatchFileSnapshot('../../../../test/golden/node-status-all.txt');
  const examined = (await run(ipam, 'doctor --cluster')).out;
  expect(examined).toContain('node "n1": it sorts \\u001b[2J first');
  expect(examined).toContain('Remove it');
  expect(examined).not.toContain('node "gone"');
  const listed = JSON.parse((await run(ipam, 'node status --all -o json')).out);
  expect(listed.map(({ node }: { node: string }) => node)).toEqual(['n1', 'n2', 'n3']);
});

it('netplugctl node status --all and doctor --cluster take no old report for the present', async () => {
  const ipam = await IpamBench.with(nodeOf('n1'), nodeOf('n2'));
  const store = openMemoryStore(ipam.database);
  const report = { release: 'v3.27.0', reportedAt: since };
  const problems = [{ code: 'network/bgp', severity: 'error', text: 'no session', since }] as const;
  await store.publishReport('n1' as NodeName, { ...report, problems }, ipam.signal);
  await store.publishReport('n2' as NodeName, { ...report, problems: [] }, ipam.signal);
  const [fresh, later] = ['2026-12-01T09:29:59Z', '2026-12-01T09:30:00Z'];
  expect((await run(ipam, 'doctor --cluster', fresh)).out).toContain('node "n1": no session');
  const examined = await run(ipam, 'doctor --cluster', later);
  expect(examined).toMatchObject({
    status: 1,
    out: expect.stringContaining(`node "n2": its agent is silent since ${since}`),
  });
  expect(examined.out).not.toContain('no session');
  const { out } = await run(ipam, 'node status --all', later);
  expect(out).toMatch(/n1 +\? +\? .*silent since/);
  expect(out).toContain('node n1, before its agent fell silent\n');
  await store.publishReport('n1' as NodeName, { ...report, problems: [] }, ipam.signal);
  expect([await run(ipam, 'node status --all', fresh), await run(ipam, 'node status --all', later)]).toMatchObject([
    { status: 0 },
    { status: 1 },
  ]);
});
