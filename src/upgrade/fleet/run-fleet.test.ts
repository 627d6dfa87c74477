import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fleet, FleetCluster, ClusterOutcome, ClusterStanding } from './fleet.ts';
import { judgeWave } from './judge-wave.ts';
import { runFleet } from './run-fleet.ts';
import { runWave } from './run-wave.ts';

const cluster = (name: string): FleetCluster => ({
  name,
  kubeconfig: `${name}.kubeconfig`,
  context: undefined,
  config: undefined,
  method: undefined,
  registry: undefined,
  like: undefined,
  pristine: undefined,
  accept: [],
  with: [],
  proof: 'run',
});
const fleet = (...waves: readonly (readonly string[])[]): Fleet => ({
  waves: waves.map((names, index) => ({
    name: `wave ${String(index + 1)}`,
    atOnce: 2,
    clusters: names.map(cluster),
  })),
});
const BEHIND: ClusterStanding = { kind: 'behind', blocking: [] };
const BLOCKED: ClusterStanding = { kind: 'behind', blocking: ['nodes/not-ready'] };

/** Clusters that an upgrade changes: `fails` are those whose upgrade fails. */
class World {
  readonly standings: Map<string, ClusterStanding>;
  readonly begun: string[] = [];
  readonly log: string[] = [];
  readonly #fails: ReadonlySet<string>;
  constructor(standings: Readonly<Record<string, ClusterStanding>>, fails: readonly string[] = []) {
    this.standings = new Map(Object.entries(standings));
    this.#fails = new Set(fails);
  }

  async run(of: Fleet): Promise<Readonly<Record<string, ClusterOutcome['kind']>>> {
    const outcomes = await runFleet(of, {
      look: async ({ clusters }) =>
        Promise.resolve(new Map(clusters.map(({ name }) => [name, this.standings.get(name) ?? BEHIND]))),
      upgrade: async ({ name }) => {
        this.begun.push(name);
        await Promise.resolve();
        if (this.#fails.has(name)) return { kind: 'failed', reason: 'its network failed' };
        this.standings.set(name, { kind: 'verified' });
        return { kind: 'upgraded' };
      },
      onWave: ({ name }, decision) => this.log.push(`${name}: ${decision}`),
    });
    return Object.fromEntries([...outcomes].map(([name, { kind }]) => [name, kind]));
  }
}

describe('the waves of a fleet', () => {
  it('are upgraded in their order', async () => {
    const world = new World({});
    expect(await world.run(fleet(['a'], ['b', 'c'], ['d']))).toEqual({
      a: 'upgraded',
      b: 'upgraded',
      c: 'upgraded',
      d: 'upgraded',
    });
    expect(world.begun).toEqual(['a', 'b', 'c', 'd']);
  });

  it('end with the wave in which a cluster fails, and go on there when they are run again', async () => {
    const world = new World({}, ['b']);
    const waves = fleet(['a'], ['b', 'c'], ['d']);
    expect(await world.run(waves)).toEqual({ a: 'upgraded', b: 'failed', c: 'upgraded', d: 'not-begun' });
    const again = new World(Object.fromEntries(world.standings));
    expect(await again.run(waves)).toEqual({ a: 'skipped', b: 'upgraded', c: 'skipped', d: 'upgraded' });
    expect(again.begun).toEqual(['b', 'd']);
  });

  it('begin no cluster of a wave while one of its clusters has a blocking hazard', async () => {
    const world = new World({ c: BLOCKED });
    expect(await world.run(fleet(['a'], ['b', 'c'], ['d']))).toEqual({
      a: 'upgraded',
      b: 'not-begun',
      c: 'refused',
      d: 'not-begun',
    });
    expect(world.log).toEqual(['wave 1: begin', 'wave 2: refused']);
  });

  it('do not begin while a cluster of an earlier wave cannot be read, even if it was verified before', async () => {
    const world = new World({ a: { kind: 'unreadable', reason: 'it does not answer' } });
    expect(await world.run(fleet(['a'], ['b']))).toEqual({ a: 'refused', b: 'not-begun' });
    expect(world.begun).toEqual([]);
  });

  it.each<[ClusterStanding['kind'], ClusterStanding]>([
    ['interrupted', { kind: 'interrupted' }],
    ['unverified', { kind: 'unverified' }],
  ])('carry on with a cluster that is %s, without a new preflight', async (_, standing) => {
    const world = new World({ a: standing });
    expect(await world.run(fleet(['a'], ['b']))).toEqual({ a: 'upgraded', b: 'upgraded' });
  });

  it('never begin a cluster before every cluster of the waves before it is verified', async () => {
    const standing = fc.constantFrom<ClusterStanding>(
      BEHIND,
      BLOCKED,
      { kind: 'verified' },
      { kind: 'unverified' },
      { kind: 'interrupted' },
      { kind: 'unreadable', reason: 'it does not answer' },
    );
    const each = fc.record({ standing, fails: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(each, { minLength: 1, maxLength: 4 }), { maxLength: 4 }), async (shape) => {
        const named = shape.map((wave, index) =>
          wave.map((one, place) => ({ ...one, name: `${String(index)}-${String(place)}` })),
        );
        const all = named.flat();
        const world = new World(
          Object.fromEntries(all.map((one) => [one.name, one.standing])),
          all.filter(({ fails }) => fails).map(({ name }) => name),
        );
        const result = await world.run(fleet(...named.map((wave) => wave.map(({ name }) => name))));
        expect(Object.keys(result)).toHaveLength(all.length);
        for (const name of world.begun) {
          const before = named.slice(0, Number(name.split('-')[0])).flat();
          for (const one of before) expect(world.standings.get(one.name)).toEqual({ kind: 'verified' });
        }
      }),
    );
  });
});

describe('a wave', () => {
  it('is over when every cluster of it is verified', () => {
    expect(judgeWave(new Map([['a', { kind: 'verified' }]]))).toMatchObject({ decision: 'over', begin: [] });
  });

  it('names the checks that refuse it', () => {
    const { decision, outcomes } = judgeWave(new Map([['a', BLOCKED]]));
    expect({ decision, outcome: outcomes.get('a') }).toEqual({
      decision: 'refused',
      outcome: { kind: 'refused', reason: 'the preflight found nodes/not-ready' },
    });
  });

  it('upgrades no more clusters at once than it may', async () => {
    let [running, most] = [0, 0];
    const gate = Promise.withResolvers<undefined>();
    const run = runWave(['a', 'b', 'c', 'd', 'e'], { atOnce: 3 }, async () => {
      running += 1;
      most = Math.max(most, running);
      await gate.promise;
      running -= 1;
      return { kind: 'upgraded' };
    });
    gate.resolve(undefined);
    expect([...(await run).values()].every(({ kind }) => kind === 'upgraded')).toBe(true);
    expect(most).toBe(3);
  });

  it('carries clusters that are under way to their end when another fails, and begins no further one', async () => {
    const slow = Promise.withResolvers<undefined>();
    const run = runWave(['fails', 'slow', 'waiting'], { atOnce: 2 }, async (name) => {
      if (name === 'slow') await slow.promise;
      return name === 'fails' ? { kind: 'failed', reason: 'its network failed' } : { kind: 'upgraded' };
    });
    setImmediate(() => {
      slow.resolve(undefined);
    });
    expect(Object.fromEntries([...(await run)].map(([name, { kind }]) => [name, kind]))).toEqual({
      fails: 'failed',
      slow: 'upgraded',
      waiting: 'not-begun',
    });
  });
});
