import { expect, it } from 'vitest';
import { virtualClock } from '../../../base/clock.ts';
import { VERSION } from '../../../base/version.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import type { ReportedNodeProblem } from '../../../model/node-report.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { agentErrors } from './agent-errors.ts';

const START = Date.parse('2026-12-01T09:00:00Z');
const at = (seconds: number): string => new Date(START + seconds * 1000).toISOString();

/** Looks once a second at what `reportAt` returns, and returns what was shown, and the error that ended it with its second. */
async function wait(
  seconds: number,
  reportAt: (second: number) => { readonly release: string; readonly reportedAt: string; readonly text: string },
): Promise<{ readonly shown: readonly string[]; readonly end: unknown; readonly second: number }> {
  const clock = virtualClock(START);
  const { signal } = new AbortController();
  let second = 0;
  const api = {
    list: async () => {
      const { release, reportedAt, text } = reportAt(second);
      const problem: ReportedNodeProblem = { code: 'x', severity: 'error', text, remedy: 'Mend it', since: at(0) };
      const spec = { release, reportedAt, problems: [problem] };
      return Promise.resolve([{ apiVersion: API_VERSION, kind: 'NodeReport', metadata: { name: 'a' }, spec }]);
    },
  } as unknown as OrchApi;
  const look = agentErrors({ api, clock, signal, onProgress: () => undefined });
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
  expect(shown[0]).toBe('node "a": no route for 0 s');
  expect(end).toMatchObject({
    code: 'install/not-ready',
    hint: 'Mend it',
    message: expect.stringContaining('no route'),
  });
  expect(second).toBe(120);
});

it.each([
  ['that was there before the wait', { release: VERSION, reportedAt: at(-1) }],
  ['of an agent of another release, which is being replaced', { release: 'v0.0.1', reportedAt: at(900) }],
])('leaves out a report %s', async (_, report) => {
  expect(await wait(300, () => ({ ...report, text: 'no route' }))).toEqual({
    shown: [''],
    end: undefined,
    second: 300,
  });
});

it('does not add up errors that change', async () => {
  const { end } = await wait(300, (now) => ({
    release: VERSION,
    reportedAt: at(now),
    text: `no ${'x'.repeat(1 + Math.floor(now / 60))}`,
  }));
  expect(end).toBeUndefined();
});
