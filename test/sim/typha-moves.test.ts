// Servers whose sources lag, fail and come back, and clients that move between them.
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { NetplugError } from '../../src/base/errors.ts';
import { inExtent } from '../runs.ts';
import { followedPool, FollowReader, FollowSource } from '../support/follow-source.ts';
import { inSimulatedTime } from '../support/simulated-time.ts';
import { followInProcess, serveInProcess } from '../support/typha-in-process.ts';

const SERVERS = 3;
const KEPT = ['always-1', 'always-2'];
const server = fc.nat({ max: SERVERS - 1 });
const step = fc.record({
  afterMs: fc.oneof(fc.nat({ max: 50 }), fc.nat({ max: 8000 })),
  act: fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('touch' as const), key: fc.constantFrom(...KEPT) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('put' as const), key: fc.constantFrom('x', 'y', 'z') }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete' as const), key: fc.constantFrom('x', 'y', 'z') }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('cut' as const), server }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('start' as const), server }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('fail' as const), server }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('relist' as const), server }) },
  ),
});

const pass = async (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

it('ends with the records of the source, never lacks one that always existed, and never goes back', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }),
      fc.array(fc.nat({ max: 2000 }), { minLength: SERVERS, maxLength: SERVERS }),
      async (steps, lagsMs) =>
        inSimulatedTime(Date.UTC(2026, 0), async () => {
          const sources = lagsMs.map(() => new FollowSource());
          const truth = new Map<string, number>();
          let count = 0;
          /** Applies a change at once to the truth, and later to each source. */
          const change = (key: string, isPut: boolean): void => {
            if (!isPut && !truth.has(key)) return;
            count += 1;
            const number = count;
            if (isPut) truth.set(key, number);
            else truth.delete(key);
            for (const [index, source] of sources.entries())
              setTimeout(
                () => (isPut ? source.put(followedPool(key, cidrOf(number))) : source.delete(key)),
                lagsMs[index],
              );
          };
          for (const key of KEPT) change(key, true);
          await pass(3000);
          const make = (index: number): ReturnType<typeof serveInProcess> =>
            serveInProcess(`s${String(index)}`, sources[index]!, { topics: ['resources/IPPool'], versionOf: Number });
          const servers = sources.map((_, index) => make(index));
          const up = new Set(sources.keys());
          const store = followInProcess(() => servers.filter((_, index) => up.has(index)));
          const seen = new Map<string, number>();
          const begin = (): FollowReader => {
            const reader = new FollowReader(store);
            reader.onEvent = () => {
              expect(reader.keys).toEqual(expect.arrayContaining(KEPT));
              for (const record of reader.cache.records()) {
                const number = numberOf(record.value);
                expect(number).toBeGreaterThanOrEqual(seen.get(record.key) ?? 0);
                seen.set(record.key, number);
              }
            };
            return reader;
          };
          let reader = begin();
          const followAgain = (): void => {
            if (reader.error === undefined) return;
            if (!(reader.error instanceof NetplugError)) throw new Error('an event was wrong', { cause: reader.error });
            reader = begin();
          };
          for (const { afterMs, act } of steps) {
            await pass(afterMs);
            followAgain();
            if (act.kind === 'touch' || act.kind === 'put') change(act.key, true);
            else if (act.kind === 'delete') change(act.key, false);
            else if (act.kind === 'cut') {
              up.delete(act.server);
              servers[act.server]?.cut();
            } else if (act.kind === 'start') {
              if (!up.has(act.server)) servers[act.server] = make(act.server);
              up.add(act.server);
            } else {
              const source = sources[act.server]!;
              source.fail(new NetplugError('store/unavailable', 'Cannot reach the API'));
              if (act.kind === 'relist') source.failure = undefined;
              else setTimeout(() => (source.failure = undefined), 5000);
            }
          }
          for (const index of sources.keys()) {
            if (!up.has(index)) servers[index] = make(index);
            up.add(index);
          }
          for (let second = 0; second < 60; second += 1) {
            await pass(1000);
            followAgain();
          }
          const found = [...reader.cache.records()].map(({ key, value }) => [key, numberOf(value)] as const);
          expect(new Map(found)).toEqual(truth);
          await reader.end();
          for (const each of servers) await each[Symbol.asyncDispose]();
        }),
    ),
    { numRuns: inExtent({ everyday: 30, soak: 1000 }) },
  );
});

function cidrOf(number: number): string {
  return `10.${String(number >> 8)}.${String(number & 255)}.0/24`;
}

function numberOf(value: unknown): number {
  const { spec } = value as { readonly spec: { readonly cidr: string } };
  const [, high, low] = spec.cidr.split('.').map(Number);
  return high! * 256 + low!;
}
