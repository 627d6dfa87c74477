// What the measured turns of an event loop contain.
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { figuresOf, waitOf } from '../support/turn-figures.ts';
import type { Turn, Turns } from '../support/turns.ts';

const TURNS = join(import.meta.dirname, '../support/turns.ts');
const BLOCKED_MS = 40;

describe('a measured turn of the event loop', () => {
  it('contains what a system call waits for, without CPU', async () => {
    const { long } = await measured(`execFileSync('sleep', ['${String(BLOCKED_MS / 1000)}'])`);
    expect(Math.max(...long.map(withoutGc))).toBeGreaterThan(BLOCKED_MS);
  });

  it('contains garbage collection, and tells how much', async () => {
    const program = `const held = Array.from({ length: 400_000 }, (_, index) => ({ index })); gc(); held.at(0)`;
    const { long } = await measured(program);
    const longest = long.toSorted((a, b) => b.gcMs - a.gcMs)[0]!;
    expect(longest.gcMs).toBeGreaterThan(1);
    expect(longest.ms).toBeGreaterThanOrEqual(longest.gcMs);
  });

  it('is short when nothing is done', async () => {
    const { long, count, unitMs } = await measured('0');
    expect(count).toBeGreaterThan(100);
    expect(unitMs).toBeGreaterThan(0);
    expect(long.filter((turn) => withoutGc(turn) > BLOCKED_MS)).toEqual([]);
  });

  it('delays who comes while it lasts by its rest', () => {
    // One event in 100 comes in the first 10 ms of the turn, and waits for the other 30 ms or more.
    expect(waitOf([40, 0.6], 10)).toBe(30);
    expect(waitOf([40, 40], 10)).toBe(35);
    expect(waitOf([], 10)).toBe(0);
    expect(figuresOf({ count: 1, totalMs: 1000, long: [{ ms: 40, cpuMs: 30, gcMs: 20 }], unitMs: 2 })).toEqual({
      work: 5,
      turn: 20,
      wait: 15,
    });
  });
});

function withoutGc({ ms, gcMs }: Turn): number {
  return ms - gcMs;
}

/** The turns of a program that does this once. */
async function measured(work: string): Promise<Turns> {
  const program = `
    const { execFileSync } = require('node:child_process');
    setTimeout(() => process.kill(process.pid, 'SIGUSR2'), 50);
    setTimeout(() => { ${work} }, 200);
    setTimeout(() => process.kill(process.pid, 'SIGUSR2'), 400);
    setTimeout(() => undefined, 700);`;
  const child = spawn(process.execPath, ['--expose-gc', `--import=${TURNS}`, '--eval', program]);
  const [errors] = await Promise.all([text(child.stderr), once(child, 'close')]);
  const told = /^TURNS (.*)$/m.exec(errors)?.[1];
  if (told === undefined) throw new Error(errors);
  return JSON.parse(told) as Turns;
}
