import { expect, it } from 'vitest';
import { nodeName } from '../../../../test/support/fixtures.ts';
import { virtualClock } from '../../../base/clock.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { Registration } from './registration.ts';

const never = new AbortController().signal;

/** A registration of a working network, and a datastore that can become unavailable. */
async function registered(): Promise<{
  readonly report: (...failing: string[]) => Promise<void>;
  readonly renew: () => void;
  readonly pass: (ms: number) => Promise<void>;
  readonly reports: () => readonly string[];
  readonly setUnavailable: (isUnavailable: boolean) => void;
}> {
  const [database, clock] = [new MemoryDatabase(), virtualClock()];
  let isDown = false;
  const store = openMemoryStore(database, { fault: () => (isDown ? { kind: 'unavailable-before' } : undefined) });
  const ports = { store, clock, register: async () => Promise.resolve() };
  const registration = new Registration(ports, nodeName('a'));
  const renew = (): void => registration.renew();
  const report = async (...failing: string[]): Promise<void> => registration.report({ failing, mtu: 1450 }, never);
  await report();
  return {
    report,
    renew,
    pass: async (ms) => clock.sleep(ms, never),
    reports: () => database.networkReports.map(({ isUp, message }) => (isUp ? 'up' : message)),
    setUnavailable: (isUnavailable) => (isDown = isUnavailable),
  };
}

it('reports a failure after 30 s, and a recovery at once', async () => {
  const { report, pass, reports } = await registered();
  await report('routes: ENOBUFS');
  await pass(29_999);
  await report('routes: ENOBUFS');
  expect(reports()).toEqual(['up']);
  await pass(1);
  await report('routes: ENOBUFS', 'nat: EPERM');
  await report('routes: ENOBUFS', 'nat: EPERM');
  expect(reports()).toEqual(['up', 'routes: ENOBUFS; nat: EPERM']);
  await report('nat: EPERM');
  await report();
  expect(reports()).toEqual(['up', 'routes: ENOBUFS; nat: EPERM', 'nat: EPERM', 'up']);
});

it('waits another 30 s before it reports a failure once an unavailable datastore is back', async () => {
  const { report, pass, reports, setUnavailable } = await registered();
  await report('routes: ENOBUFS');
  await pass(30_000);
  setUnavailable(true);
  await expect(report('routes: ENOBUFS')).rejects.toMatchObject({ code: 'store/unavailable' });
  setUnavailable(false);
  await report('routes: ENOBUFS');
  expect(reports()).toEqual(['up']);
  await pass(30_000);
  await report('routes: ENOBUFS');
  expect(reports()).toEqual(['up', 'routes: ENOBUFS']);
});

it('reports again when the Node has changed, and every minute, because another program may have written the condition', async () => {
  const { report, renew, pass, reports } = await registered();
  await report();
  expect(reports()).toEqual(['up']);
  renew();
  await report();
  await report();
  expect(reports()).toEqual(['up', 'up']);
  await pass(60_000);
  await report();
  await report();
  expect(reports()).toEqual(['up', 'up', 'up']);
  await report('routes: ENOBUFS');
  await pass(30_000);
  for (const renewed of [false, true, false]) {
    if (renewed) renew();
    await report('routes: ENOBUFS');
  }
  expect(reports().slice(3)).toEqual(['routes: ENOBUFS', 'routes: ENOBUFS']);
});
