import { expect, it } from 'vitest';
import { TestClock } from '../../../../../test/support/enforcement-host.ts';
import { silentLog } from '../../../../base/log.ts';
import type { NodeProblem } from '../../../../model/node-report.ts';
import { HostInspector } from './inspect-host.ts';

const FULL: NodeProblem = { code: 'kernel/flows-full', severity: 'error', text: 'no room' };

it('inspects after each period and when asked, and never before the pause of an inspection is over', async () => {
  const clock = new TestClock();
  const over = new AbortController();
  let [looks, costMs] = [0, 0];
  let found: readonly NodeProblem[] | undefined = undefined;
  const inspect = async (signal: AbortSignal) => {
    looks += 1;
    if (costMs > 0) await clock.sleep(costMs, signal);
    return found;
  };
  const inspector = new HostInspector({ clock, log: silentLog }, [
    { name: 'tables', everyMs: 60_000, pauseMs: 10_000, inspect },
  ]);
  const run = inspector.run(over.signal);
  await clock.pass(0);
  expect([looks, inspector.problems()]).toEqual([1, []]);
  // It could not be judged yet, and is soon inspected again.
  found = [FULL];
  await clock.pass(10_000);
  expect([looks, inspector.problems()]).toEqual([2, [FULL]]);
  inspector.request('tables');
  await clock.pass(9999);
  expect(looks).toBe(2);
  costMs = 1000;
  await clock.pass(1);
  await clock.pass(1000);
  // One that takes long makes the pause longer.
  inspector.request('tables');
  await clock.pass(49_999);
  expect(looks).toBe(3);
  await clock.pass(1);
  expect(looks).toBe(4);
  over.abort();
  await clock.pass(0);
  await run;
});

it('has nothing to say while an inspection fails', async () => {
  const clock = new TestClock();
  const over = new AbortController();
  const answers = [async () => Promise.resolve([FULL]), async () => Promise.reject(new Error('EPERM'))];
  const inspector = new HostInspector({ clock, log: silentLog }, [
    { name: 'tables', everyMs: 10_000, pauseMs: 10_000, inspect: async () => answers.shift()?.() },
  ]);
  const run = inspector.run(over.signal);
  await clock.pass(0);
  expect(inspector.problems()).toEqual([FULL]);
  await clock.pass(10_000);
  expect(inspector.problems()).toEqual([]);
  over.abort();
  await clock.pass(0);
  await run;
});
