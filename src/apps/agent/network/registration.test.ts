import { expect, it } from 'vitest';
import { nodeName } from '../../../../test/support/fixtures.ts';
import { virtualClock } from '../../../base/clock.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { Registration } from './registration.ts';

const never = new AbortController().signal;

/** A registration that has told that the network works, and a datastore that can go away. */
async function registered(): Promise<{
  readonly tell: (...failing: string[]) => Promise<void>;
  readonly pass: (ms: number) => Promise<void>;
  readonly told: () => readonly string[];
  readonly setAway: (isAway: boolean) => void;
}> {
  const [database, clock] = [new MemoryDatabase(), virtualClock()];
  let isDown = false;
  const store = openMemoryStore(database, { fault: () => (isDown ? { kind: 'unavailable-before' } : undefined) });
  const ports = { store, clock, register: async () => Promise.resolve() };
  const registration = new Registration(ports, nodeName('a'));
  const tell = async (...failing: string[]): Promise<void> => registration.tell({ failing, mtu: 1450 }, never);
  await tell();
  return {
    tell,
    pass: async (ms) => clock.sleep(ms, never),
    told: () => database.networkReports.map(({ isUp, message }) => (isUp ? 'up' : message)),
    setAway: (isAway) => (isDown = isAway),
  };
}

it('a network that fails is told of when it has for 30 s, and that it works at once', async () => {
  const { tell, pass, told } = await registered();
  await tell('routes: ENOBUFS');
  await pass(29_999);
  await tell('routes: ENOBUFS');
  expect(told()).toEqual(['up']);
  await pass(1);
  await tell('routes: ENOBUFS', 'nat: EPERM');
  await tell('routes: ENOBUFS', 'nat: EPERM');
  expect(told()).toEqual(['up', 'routes: ENOBUFS; nat: EPERM']);
  await tell('nat: EPERM');
  await tell();
  expect(told()).toEqual(['up', 'routes: ENOBUFS; nat: EPERM', 'nat: EPERM', 'up']);
});

it('what could not be told while the datastore was away has 30 s to be over once it is back', async () => {
  const { tell, pass, told, setAway } = await registered();
  await tell('routes: ENOBUFS');
  await pass(30_000);
  setAway(true);
  await expect(tell('routes: ENOBUFS')).rejects.toMatchObject({ code: 'store/unavailable' });
  setAway(false);
  await tell('routes: ENOBUFS');
  expect(told()).toEqual(['up']);
  await pass(30_000);
  await tell('routes: ENOBUFS');
  expect(told()).toEqual(['up', 'routes: ENOBUFS']);
});
