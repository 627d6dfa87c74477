import { expect, it } from 'vitest';
import { MACHINE } from '../../../../test/support/fixtures.ts';
import { virtualClock } from '../../../base/clock.ts';
import { VERSION } from '../../../base/version.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import type { ReportedNodeProblem } from '../../../model/node-report.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { agentErrors } from './agent-errors.ts';

const START = Date.parse('2026-12-01T09:00:00Z');
const at = (seconds: number): string => new Date(START + seconds * 1000).toISOString();

interface Written {
  readonly release: string;
  readonly reportedAt: string;
  readonly renewedAt?: string;
  readonly text: string;
}

/** Looks once a second at what `reportAt` returns, and returns what was shown, and the error that ended it with its second. */
async function wait(
  seconds: number,
  reportAt: (second: number) => Written,
  of?: string,
): Promise<{ readonly shown: readonly string[]; readonly end: unknown; readonly second: number }> {
  const clock = virtualClock(START);
  const { signal } = new AbortController();
  let second = 0;
  const api = {
    list: async () => {
      const { release, reportedAt, renewedAt, text } = reportAt(second);
      const problem: ReportedNodeProblem = { code: 'x', severity: 'error', text, remedy: 'Mend it', since: at(0) };
      const machine = renewedAt === undefined ? undefined : { ...MACHINE, renewedAt };
      const spec = { release, reportedAt, problems: [problem], ...(machine === undefined ? {} : { machine }) };
      return Promise.resolve([{ apiVersion: API_VERSION, kind: 'NodeReport', metadata: { name: 'a' }, spec }]);
    },
  } as unknown as OrchApi;
  const look = agentErrors({ api, clock, signal, onProgress: () => undefined }, of);
  const shown = new Set<string>();
  for (; second < seconds; second += 1) {
    try {
      shown.add((await look()) ?? '');
    } catch (cause) {
      return { shown: [...shown], end: cause, second };
    }
    await clock.sleep(1000, signal);
  }
  return { shown: [...shown], end: undefined, second };
}

it('shows the error of an agent, and ends the wait with it and its remedy after two minutes', async () => {
  const { shown, end, second } = await wait(300, (now) => ({
    release: VERSION,
    reportedAt: at(now),
    text: `no route for ${String(now)} s`,
  }));
  expect(shown.slice(0, 2)).toEqual(['', 'node "a": no route for 1 s']);
  expect(end).toMatchObject({
    code: 'install/not-ready',
    hint: 'Mend it',
    message: expect.stringContaining('no route'),
  });
  expect(second).toBe(121);
});

it.each([
  ['an hour behind', -3600],
  ['an hour ahead', 3600],
])('takes an error of before the wait that is renewed each minute, by a clock that is %s', async (_, skew) => {
  const { shown, second } = await wait(300, (now) => ({
    release: VERSION,
    reportedAt: at(skew - 300),
    renewedAt: at(skew + 60 * Math.floor((now + 30) / 60)),
    text: 'no route',
  }));
  expect(shown).toEqual(['', 'node "a": no route']);
  expect(second).toBe(150);
});

it('counts agents of the release that is waited for', async () => {
  const old = (now: number): Written => ({ release: 'v0.0.1', reportedAt: at(now), text: 'no route' });
  expect((await wait(300, old)).end).toBeUndefined();
  expect((await wait(300, old, 'v0.0.1')).end).toMatchObject({ code: 'install/not-ready' });
});

it('leaves out a report that no agent writes again', async () => {
  const { shown, end } = await wait(300, () => ({ release: VERSION, reportedAt: at(60), text: 'no route' }));
  expect({ shown, end }).toEqual({ shown: [''], end: undefined });
});

it('does not add up errors that change', async () => {
  const { end } = await wait(300, (now) => ({
    release: VERSION,
    reportedAt: at(now),
    text: `no ${'x'.repeat(1 + Math.floor(now / 60))}`,
  }));
  expect(end).toBeUndefined();
});
