// Runs one property on values without end, for as long as the environment says.
import type { Socket } from 'node:net';
import * as fc from 'fast-check';
import { expect } from 'vitest';
import { SIZES } from '../runs.ts';

/** How long all properties of one file take together; NETPLUG_FUZZ_SECONDS is for a longer look at one of them. */
export const SECONDS = Number(process.env['NETPLUG_FUZZ_SECONDS'] ?? SIZES.fuzzSeconds);
export const SEED = process.env['NETPLUG_FUZZ_SEED'];
/** Far more than any value takes, of the processor and not of the wall clock: others use the machine too. */
const LONGEST_CPU_MS = 2000;

/** Values of each property, also on a machine that is too busy for them. */
const LEAST = 20;

/** The longest that one property may take, in milliseconds; what lasts longer hangs. */
export const HANG_MS = (SECONDS + 60) * 1000;

/**
 * Checks some values, and more until the share of the time is over. Returns how many. A failure names the seed, the path and the
 * smallest value that fails. `NETPLUG_FUZZ_SEED` repeats a run.
 */
export function fuzz<T>(values: fc.Arbitrary<T>, share: number, check: (value: T) => void): number {
  const property = fc.property(values, (value) => {
    const before = process.cpuUsage();
    check(value);
    const { user, system } = process.cpuUsage(before);
    const cpuMs = (user + system) / 1000;
    if (cpuMs > LONGEST_CPU_MS) throw new Error(`it took ${String(Math.round(cpuMs))} ms of the processor`);
  });
  const run = (limits: fc.Parameters<[T]>): number => {
    const outcome = fc.check(property, { ...(SEED === undefined ? {} : { seed: Number(SEED) }), ...limits });
    if (outcome.failed) throw new Error(fc.defaultReportMessage(outcome), { cause: outcome.errorInstance });
    return outcome.numRuns;
  };
  const startMs = performance.now();
  const first = run({ numRuns: LEAST });
  const leftMs = SECONDS * 1000 * share - (performance.now() - startMs);
  const limits = { interruptAfterTimeLimit: leftMs, markInterruptAsFailure: false };
  return leftMs <= 0 ? first : first + run({ numRuns: Number.MAX_SAFE_INTEGER, ...limits });
}

/** Resolves when the connection has closed. A server may close while there is still something to read: an error comes before the end then. */
export async function untilClosed(socket: Socket): Promise<unknown> {
  return new Promise((resolve) => {
    socket
      .resume()
      .on('error', () => undefined)
      .once('close', resolve);
  });
}

/** Fails unless both are equal; fields that are undefined do not count. */
export function mustEqual(actual: unknown, expected: unknown): void {
  expect(actual).toEqual(expected);
}
