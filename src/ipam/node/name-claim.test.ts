import { describe, expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { Store } from '../../datastore/store.ts';
import { API_VERSION } from '../../model/resource.ts';
import { nodeName } from '../../../test/support/fixtures.ts';
import { assertName, type MachineIdentity, NAME_TIMES, NameClaim } from './name-claim.ts';
import { namedStore } from './named-store.ts';

const never = new AbortController().signal;
const NODE = nodeName('n1');
const LOOK_MS = 5000;
const ONE: MachineIdentity = { id: 'i1', runs: ['r1'], hardware: ['m1', 'm2'], hostName: 'host-1' };
const OTHER: MachineIdentity = { id: 'i2', runs: ['r2'], hardware: ['m3'], hostName: 'host-2' };

function cluster(database = new MemoryDatabase()): {
  readonly store: Store;
  readonly clock: ReturnType<typeof virtualClock>;
  readonly claimOf: (machine: MachineIdentity) => NameClaim;
} {
  const clock = virtualClock();
  const store = openMemoryStore(database);
  const claimOf = (machine: MachineIdentity): NameClaim =>
    new NameClaim({ clock, log: silentLog, store }, { node: NODE, machine });
  return { store, clock, claimOf };
}

const codeOf = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'held',
    (cause: unknown) => (cause as { code?: string }).code,
  );

/** Looks every few seconds until the claim is held, and returns after how many milliseconds. */
async function heldAfterMs(
  claim: NameClaim,
  {
    clock,
    each = async () => Promise.resolve(),
  }: Pick<ReturnType<typeof cluster>, 'clock'> & { each?: () => Promise<unknown> },
): Promise<number> {
  const startMs = clock.monotonic();
  while (clock.monotonic() - startMs < 2 * NAME_TIMES.lapseMs) {
    if ((await codeOf(claim.hold(never))) === 'held') return clock.monotonic() - startMs;
    await each();
    await clock.sleep(LOOK_MS, never);
  }
  return Number.POSITIVE_INFINITY;
}

describe('the name of a node', () => {
  it('is held by one of two machines that claim it at the same moment', async () => {
    const { claimOf } = cluster();
    const outcomes = await Promise.all([ONE, OTHER].map(async (each) => codeOf(claimOf(each).hold(never))));
    expect(outcomes.toSorted()).toEqual(['agent/name-taken', 'held']);
  });

  it('names the other machine by host name, address and its last renewal', async () => {
    const { store, claimOf } = cluster();
    const spec = { bgp: { ipv4Address: '192.0.2.7/24' } };
    await store.createResource({ apiVersion: API_VERSION, kind: 'Node', metadata: { name: NODE }, spec }, never);
    await claimOf(ONE).hold(never);
    await expect(claimOf(OTHER).hold(never)).rejects.toThrow(
      /another machine has this name \(host name "host-1", address 192\.0\.2\.7\/24, last heard of at 1970-/,
    );
  });

  it.each([
    ['after a restart of its agent', { ...ONE, hardware: [] }],
    ['after a restart with another folder', { ...ONE, runs: ['r8', 'r1'], hardware: [] }],
    ['after a boot with a further network card', { ...ONE, runs: ['r9'], hardware: ['m1', 'm2', 'm8'] }],
    ['after a boot without one of its network cards', { ...ONE, runs: ['r9'], hardware: ['m2'] }],
    ['installed again, known by its network cards', { ...ONE, id: 'i9', runs: ['r9'] }],
  ])('is held at once by the same machine %s', async (_, machine) => {
    const { claimOf } = cluster();
    await claimOf(ONE).hold(never);
    expect(await codeOf(claimOf(machine).hold(never))).toBe('held');
  });

  it.each([
    ['another machine', OTHER, NAME_TIMES.lapseMs],
    ['a machine with one MAC address in common', { ...OTHER, hardware: ['m1', 'm3'] }, NAME_TIMES.lapseMs],
    ['a machine of the same image with other network cards', { ...OTHER, id: 'i1' }, NAME_TIMES.lapseMs],
    [
      'one of the same image that no hardware tells apart',
      { id: 'i1', runs: ['r2'], hostName: 'x' },
      NAME_TIMES.sameStateMs,
    ],
  ])('is taken over by %s only when it was not renewed for long', async (_, machine, waitMs) => {
    const { clock, claimOf } = cluster();
    await claimOf(ONE).hold(never);
    // However long it was before this machine looked.
    await clock.sleep(3_600_000, never);
    expect(await heldAfterMs(claimOf(machine), { clock })).toBe(waitMs);
  });

  it('stays with a machine that renews it, also when the agents of both restart', async () => {
    const { clock, claimOf } = cluster();
    const renew = async (): Promise<void> => claimOf(ONE).hold(never);
    await renew();
    expect(await heldAfterMs(claimOf(OTHER), { clock, each: renew })).toBe(Number.POSITIVE_INFINITY);
    expect(await codeOf(claimOf(OTHER).hold(never))).toBe('agent/name-taken');
    expect(await codeOf(claimOf(ONE).hold(never))).toBe('held');
  });

  it('is not taken over across a time in which nothing could be read', async () => {
    const { clock, claimOf } = cluster();
    await claimOf(ONE).hold(never);
    const other = claimOf(OTHER);
    expect(await codeOf(other.hold(never))).toBe('agent/name-taken');
    await clock.sleep(NAME_TIMES.lapseMs, never);
    expect(await heldAfterMs(other, { clock })).toBe(NAME_TIMES.lapseMs);
  });

  it('is confirmed for its machine by a datastore that takes no writes, which stay refused', async () => {
    const clock = virtualClock(NAME_TIMES.renewMs);
    const database = new MemoryDatabase();
    await cluster(database).claimOf(ONE).hold(never);
    const full = openMemoryStore(database, {
      fault: (operation) => (operation === 'updateResource' ? { kind: 'unavailable-before' } : undefined),
    });
    const claimOf = (machine: MachineIdentity): NameClaim =>
      new NameClaim({ clock, log: silentLog, store: full }, { node: NODE, machine });
    const own = claimOf(ONE);
    expect(await codeOf(own.confirm(never))).toBe('held');
    expect(await codeOf(namedStore(full, own).publishNode(NODE, {}, never))).toBe('store/unavailable');
    expect(await codeOf(claimOf(OTHER).confirm(never))).toBe('agent/name-taken');
  });

  it('keeps calls without an agent from another machine for as long', async () => {
    const { store, clock, claimOf } = cluster();
    const call = async (machine: MachineIdentity): Promise<unknown> =>
      codeOf(assertName(store, { node: NODE, machine: () => machine, nowMs: clock.now() }, never));
    expect(await call(OTHER)).toBe('held');
    await claimOf(ONE).hold(never);
    expect([await call(ONE), await call(OTHER)]).toEqual(['held', 'agent/name-taken']);
    await clock.sleep(NAME_TIMES.lapseMs, never);
    expect(await call(OTHER)).toBe('held');
  });

  it('is never used again by an agent that has lost it', async () => {
    const { store, clock, claimOf } = cluster();
    const first = claimOf(ONE);
    const named = namedStore(store, first);
    await first.hold(never);
    await named.publishNode(NODE, { netplugVersion: 'v1' }, never);
    await heldAfterMs(claimOf(OTHER), { clock });
    await expect(named.publishNode(NODE, { netplugVersion: 'v2' }, never)).rejects.toThrow('another machine');
    await expect(first.keep(never)).rejects.toThrow('another machine has this name (host name "host-2"');
    await store.deleteResource({ kind: 'NodeReport', name: NODE }, never);
    expect(await codeOf(first.hold(never))).toBe('agent/name-taken');
    expect((await store.findResource({ kind: 'Node', name: NODE }, never))?.spec.netplugVersion).toBe('v1');
  });

  it('is asked for before a write by an agent that was paused, whose monotonic clock stood still', async () => {
    const { store, clock, claimOf } = cluster();
    const paused = { ...clock, monotonic: () => 0 };
    const first = new NameClaim({ clock: paused, log: silentLog, store }, { node: NODE, machine: ONE });
    await first.hold(never);
    await heldAfterMs(claimOf(OTHER), { clock });
    expect(await codeOf(namedStore(store, first).publishNode(NODE, {}, never))).toBe('agent/name-taken');
  });

  it.each([-86_400_000, 86_400_000])('stays with an agent whose wall clock is set by %i ms', async (byMs) => {
    const { store, clock } = cluster();
    let wallMs = byMs;
    const own = new NameClaim(
      { clock: { ...clock, now: () => wallMs }, log: silentLog, store },
      { node: NODE, machine: ONE },
    );
    await own.hold(never);
    wallMs = 0;
    for (let times = 0; times < 2; times += 1)
      expect(await codeOf(namedStore(store, own).publishNode(NODE, {}, never))).toBe('held');
  });

  it('stays in the report when its agent publishes problems', async () => {
    const { store, claimOf } = cluster();
    await claimOf(ONE).hold(never);
    await store.publishReport(NODE, { release: 'v3.27.0', problems: [] }, never);
    expect(await codeOf(claimOf(OTHER).hold(never))).toBe('agent/name-taken');
  });
});
