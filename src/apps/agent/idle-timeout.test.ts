import { expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { IdleTimeout } from './idle-timeout.ts';

const FOREVER = new AbortController().signal;
const NO_AGENT = { clock: systemClock, hasAgent: () => false };
const LONG_MS = 60_000;

/** Resolves to how long the server stays, in milliseconds. */
async function stay(idleTimeout: IdleTimeout, signal = FOREVER): Promise<number> {
  const startMs = systemClock.monotonic();
  await idleTimeout.ended(signal);
  return systemClock.monotonic() - startMs;
}

it('stays for the idle time after the last call, and while a call is in flight', async () => {
  const idleTimeout = new IdleTimeout(NO_AGENT, { idleMs: 150, totalMs: LONG_MS });
  idleTimeout.setInFlight(1);
  setTimeout(() => idleTimeout.setInFlight(0), 300);
  expect(await stay(idleTimeout)).toBeGreaterThanOrEqual(440);
  expect(await stay(new IdleTimeout(NO_AGENT, { idleMs: 150, totalMs: LONG_MS }))).toBeGreaterThanOrEqual(140);
});

it('stays no longer than the limit, also with calls in flight', async () => {
  const idleTimeout = new IdleTimeout(NO_AGENT, { idleMs: LONG_MS, totalMs: 150 });
  idleTimeout.setInFlight(1);
  expect(await stay(idleTimeout)).toBeGreaterThanOrEqual(140);
});

it('leaves when an agent appears, or when the signal aborts', async () => {
  const limits = { idleMs: LONG_MS, totalMs: LONG_MS };
  let hasAgent = false;
  setTimeout(() => (hasAgent = true), 100);
  expect(await stay(new IdleTimeout({ clock: systemClock, hasAgent: () => hasAgent }, limits))).toBeGreaterThanOrEqual(
    90,
  );
  expect(await stay(new IdleTimeout(NO_AGENT, limits), AbortSignal.timeout(50))).toBeGreaterThanOrEqual(40);
});
