import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Actor, carryOut, type Execution, resume, undo } from './carry-out.ts';
import type { Plan, Step } from './plan.ts';
import { filePlanRecords, memoryPlanRecords, type PlanRecords } from './plan-records.ts';

interface Setting {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}
type World = Map<string, number>;

/** Simulates SIGKILL: nothing after it runs. */
class Killed extends Error {}

/** Kills a simulated process after a number of moments. Each write to the record or the world has one moment before and one after it. */
class Life {
  readonly #moments: number;
  #left: number;

  constructor(moments: number) {
    this.#moments = moments;
    this.#left = moments;
  }

  pass(): void {
    if (this.#left === 0) throw new Killed();
    this.#left -= 1;
  }

  get used(): number {
    return this.#moments - this.#left;
  }
}

function executionIn(world: World, records: PlanRecords, life: Life): Execution<Setting> {
  const at = (key: string): number => world.get(key) ?? 0;
  const change = async (key: string, expected: number, value: number): Promise<void> => {
    life.pass();
    if (at(key) !== expected) throw new Error(`"${key}" is ${String(at(key))} and not ${String(expected)}`);
    world.set(key, value);
    life.pass();
    return Promise.resolve();
  };
  const actor: Actor<Setting> = {
    inspect: async ({ key, from, to }) =>
      Promise.resolve(at(key) === from ? 'before' : at(key) === to ? 'after' : 'differs'),
    apply: async ({ key, from, to }) => change(key, from, to),
    revert: async ({ key, from, to }) => (at(key) === from ? undefined : change(key, to, from)),
  };
  const dying: PlanRecords = {
    ...records,
    save: async (name, text) => {
      life.pass();
      await records.save(name, text);
      life.pass();
    },
  };
  return { name: 'test', records: dying, afterwards: 'keep-record', actor, signal: new AbortController().signal };
}

const IMMORTAL = 1_000_000;
const plans = fc
  .array(fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 4 }), { maxLength: 4 })
  .map((stages): Plan<Setting> => {
    let count = 0;
    const step = (to: number): Step<Setting> => ({
      kind: 'write',
      text: `set ${String(to)}`,
      key: `k${String(count++)}`,
      from: 0,
      to,
    });
    return {
      stages: stages.map((values, index) => ({ title: `stage ${String(index)}`, steps: values.map(step) })),
      notes: [],
    };
  });

function worldAfter({ stages }: Plan<Setting>): World {
  return new Map(
    stages.flatMap(({ steps }) => steps).flatMap((step) => (step.kind === 'write' ? [[step.key, step.to]] : [])),
  );
}
function changed(world: World): World {
  return new Map([...world].filter(([, value]) => value !== 0));
}
async function countMoments(act: (execution: Execution<Setting>) => Promise<unknown>): Promise<number> {
  const life = new Life(IMMORTAL);
  await act(executionIn(new Map(), memoryPlanRecords(), life));
  return life.used;
}

describe('a plan whose process is killed', () => {
  it('is resumed to the end wherever it was killed, and carries out no step twice', async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const moments = await countMoments(async (execution) => carryOut(execution, plan));
        for (let moment = 0; moment < moments; moment += 1) {
          const [world, records]: [World, PlanRecords] = [new Map(), memoryPlanRecords()];
          await expect(carryOut(executionIn(world, records, new Life(moment)), plan)).rejects.toThrow(Killed);
          // The second process is killed early as well.
          await resume(executionIn(world, records, new Life(1))).catch(ignoreKilled);
          const outcome = await resume(executionIn(world, records, new Life(IMMORTAL)));
          // A process that was killed before its first record leaves nothing to resume.
          if (outcome === undefined && moment === 0)
            await carryOut(executionIn(world, records, new Life(IMMORTAL)), plan);
          expect(world).toEqual(worldAfter(plan));
          expect(await resume(executionIn(world, records, new Life(IMMORTAL)))).toBeUndefined();
        }
      }),
      { numRuns: 40 },
    );
  });

  it('is undone wherever it was killed, even when the undo is killed as well', async () => {
    await fc.assert(
      fc.asyncProperty(plans, fc.nat(60), async (plan, killedAfter) => {
        const [world, records]: [World, PlanRecords] = [new Map(), memoryPlanRecords()];
        await carryOut(executionIn(world, records, new Life(killedAfter)), plan).catch(ignoreKilled);
        if ((await records.load('test')) === undefined) return;
        const [kept, text] = [new Map(world), (await records.load('test')) ?? ''];
        for (let moment = 0, isKilled = true; isKilled; moment += 1) {
          isKilled = false;
          world.clear();
          for (const [key, value] of kept) world.set(key, value);
          await records.save('test', text);
          await undo(executionIn(world, records, new Life(moment))).catch((cause: unknown) => {
            isKilled = true;
            ignoreKilled(cause);
          });
          await undo(executionIn(world, records, new Life(IMMORTAL)));
          expect(changed(world)).toEqual(new Map());
        }
      }),
      { numRuns: 40 },
    );
  });

  it('is not resumed, and changes nothing, when an object of one of its steps was changed in the meantime', async () => {
    await fc.assert(
      fc.asyncProperty(plans, fc.nat(60), fc.nat(20), async (plan, killedAfter, pick) => {
        const [world, records]: [World, PlanRecords] = [new Map(), memoryPlanRecords()];
        await carryOut(executionIn(world, records, new Life(killedAfter)), plan).catch(ignoreKilled);
        const keys = [...worldAfter(plan).keys()];
        const key = keys[pick % keys.length];
        const record = JSON.parse((await records.load('test')) ?? '{"isOver":true}') as { isOver: boolean };
        if (key === undefined || record.isOver) return;
        world.set(key, 99);
        const before = new Map(world);
        const resumed = resume(executionIn(world, records, new Life(IMMORTAL)));
        await expect(resumed).rejects.toMatchObject({ code: 'plan/outdated' });
        expect(world).toEqual(before);
      }),
    );
  });
});

describe('a plan', () => {
  const [SET, FINAL] = [
    { kind: 'write', text: 'set a', key: 'a', from: 0, to: 1 },
    { kind: 'write', text: 'set b', key: 'b', from: 0, to: 1, isFinal: true },
  ] as const;

  it('stops after a stage that a user or another program must finish', async () => {
    const world: World = new Map();
    const plan: Plan<Setting> = {
      stages: [
        { title: 'first', steps: [{ kind: 'wait', text: 'for the controller' }, SET] },
        { title: 'second', steps: [FINAL] },
      ],
      notes: [],
    };
    expect(await carryOut(executionIn(world, memoryPlanRecords(), new Life(IMMORTAL)), plan)).toBe('unfinished');
    expect(world).toEqual(new Map([['a', 1]]));
  });

  it('removes its record at the end when it need not be undone later', async () => {
    const records = memoryPlanRecords();
    const execution = executionIn(new Map(), records, new Life(IMMORTAL));
    await carryOut(
      { ...execution, afterwards: 'remove-record' },
      { stages: [{ title: 'one', steps: [SET] }], notes: [] },
    );
    expect(await records.load('test')).toBeUndefined();
  });

  it('is not undone, not even in part, once an irreversible step is done', async () => {
    const world: World = new Map();
    const execution = executionIn(world, memoryPlanRecords(), new Life(IMMORTAL));
    await carryOut(execution, { stages: [{ title: 'one', steps: [SET, FINAL] }], notes: [] });
    await expect(undo(execution)).rejects.toThrow('"set b" cannot be undone');
    expect(world.get('a')).toBe(1);
  });

  it('is undone but for an interrupted step whose object was changed since, which is named', async () => {
    const records = memoryPlanRecords();
    const world: World = new Map();
    const other = { ...SET, text: 'set c', key: 'c' };
    const plan = { stages: [{ title: 'one', steps: [other, SET] }], notes: [] };
    const isKilledAt = async (moment: number): Promise<boolean> =>
      carryOut(executionIn(world, records, new Life(moment)), plan).then(
        () => false,
        () => world.get('a') === 1,
      );
    let moment = 0;
    while (!(await isKilledAt(moment))) {
      moment += 1;
      world.clear();
    }
    world.set('a', 7);
    const undone = undo(executionIn(world, records, new Life(IMMORTAL)));
    await expect(undone).rejects.toMatchObject({ code: 'plan/outdated', message: expect.stringContaining('"set a"') });
    expect(world).toEqual(
      new Map([
        ['c', 0],
        ['a', 7],
      ]),
    );
  });

  it('has as many steps of a stage under way as it may, and begins none after a failure', async () => {
    const [begun, ended]: [string[], string[]] = [[], []];
    const gates = new Map(['a', 'b', 'c', 'd', 'e'].map((key) => [key, Promise.withResolvers<void>()]));
    const steps = [...gates.keys()].map((key): Step<Setting> => ({ ...SET, key, text: key }));
    const records = memoryPlanRecords();
    const actor: Actor<Setting> = {
      inspect: async () => Promise.resolve('before'),
      apply: async ({ key }) => {
        begun.push(key);
        await gates.get(key)?.promise;
        ended.push(key);
      },
    };
    const execution = { ...executionIn(new Map(), records, new Life(IMMORTAL)), actor, atOnce: 2 };
    const stages = [
      { title: 'one', steps: steps.slice(0, 4) },
      { title: 'two', steps: steps.slice(4) },
    ];
    const run = carryOut(execution, { stages, notes: [] });
    await expect.poll(() => begun).toEqual(['a', 'b']);
    gates.get('b')?.resolve();
    await expect.poll(() => begun).toEqual(['a', 'b', 'c']);
    gates.get('c')?.reject(new Error('c fails'));
    gates.get('a')?.resolve();
    await expect(run).rejects.toThrow('c fails');
    expect([begun, ended]).toEqual([
      ['a', 'b', 'c'],
      ['b', 'a'],
    ]);
    const { steps: recorded } = JSON.parse((await records.load('test')) ?? '') as { readonly steps: object };
    expect(recorded).toEqual({ '1.1': 'done', '1.2': 'done', '1.3': 'begun' });
  });

  it('is recorded in a private file, and refuses a damaged record', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'netplug-plans-'));
    try {
      const records = filePlanRecords(join(folder, 'plans'));
      const execution = executionIn(new Map(), records, new Life(5));
      const plan: Plan<Setting> = { stages: [{ title: 'one', steps: [SET] }], notes: [] };
      await expect(carryOut(execution, plan)).rejects.toThrow(Killed);
      expect(await readdir(join(folder, 'plans'))).toEqual(['test.json']);
      await writeFile(
        join(folder, 'plans/test.json'),
        (await records.load('test'))?.replace('"to": 1', '"to": 2') ?? '',
      );
      await expect(resume(execution)).rejects.toMatchObject({ code: 'plan/outdated' });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

describe('records in files', () => {
  it('do not disturb each other when several plans end', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'netplug-plans-'));
    try {
      const records = filePlanRecords(join(folder, 'plans'));
      const names = Array.from({ length: 8 }, (_, index) => `plan-${String(index)}`);
      await Promise.all(
        names.map(async (name) => {
          for (let round = 0; round < 40; round += 1) {
            await records.save(name, String(round));
            expect(await records.load(name)).toBe(String(round));
            await records.remove(name);
          }
        }),
      );
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

function ignoreKilled(cause: unknown): void {
  if (!(cause instanceof Killed)) throw cause;
}
