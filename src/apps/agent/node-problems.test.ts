import { expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import type { NodeName } from '../../model/names.ts';
import type { NodeProblem, NodeReportSpec } from '../../model/node-report.ts';
import { NodeProblems } from './node-problems.ts';

const BAD: NodeProblem = { code: 'network/failing', severity: 'error', text: 'routes: none for 1 s' };
const ODD: NodeProblem = { code: 'policy/records', severity: 'warning', text: 'policy "x": no port' };

/** Publishes while the looks last, one each 5 s, and returns the problems of each report with its time in seconds. */
async function published(
  looks: readonly (readonly NodeProblem[])[],
  accept: (report: NodeReportSpec) => boolean = () => true,
): Promise<readonly (readonly [number, ...string[]])[]> {
  const stop = new AbortController();
  const clock = virtualClock();
  const startMs = clock.monotonic();
  const reports: [number, ...string[]][] = [];
  let index = 0;
  const problems = new NodeProblems({
    clock,
    random: systemRandom,
    log: silentLog,
    collect: (ofNetwork) => ofNetwork,
    askNetwork: async () => {
      if (index === looks.length - 1) stop.abort();
      index += 1;
      return Promise.resolve(looks[index - 1] ?? []);
    },
    store: () => ({
      publishReport: async (_node, report) => {
        if (!accept(report)) throw new Error('no datastore');
        reports.push([Math.round((clock.monotonic() - startMs) / 1000), ...report.problems.map(({ text }) => text)]);
        return Promise.resolve();
      },
    }),
  });
  await problems.publish({ node: 'a' as NodeName, release: 'v1.0.0' }, stop.signal);
  return reports;
}

it('publishes what two looks have seen, errors first, and that nothing is wrong any more', async () => {
  const both = [ODD, BAD];
  const reports = await published([[ODD], both, both, both, [], [], [], []]);
  expect(reports).toEqual([[5], [15, BAD.text, ODD.text], [25]]);
});

it('leaves out what lasts for one look, and writes at most once in 10 s', async () => {
  const flapping = Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? [BAD] : []));
  expect(await published(flapping)).toEqual([[5]]);
  const changing = Array.from({ length: 41 }, (_, index) => (index % 4 < 2 ? [BAD] : [ODD]));
  const reports = await published(changing);
  expect(reports.length).toBeLessThanOrEqual(21);
});

it('writes an unchanged report again after ten minutes, and tries again when that failed', async () => {
  const quiet = Array.from({ length: 250 }, () => [BAD]);
  let failures = 2;
  const reports = await published(quiet, () => (failures -= 1) < 0);
  expect(reports.length).toBe(3);
  expect((reports[2]?.[0] ?? 0) - (reports[1]?.[0] ?? 0)).toBeGreaterThanOrEqual(600);
});

it('keeps since when a problem is there, also while a number in its sentence grows', async () => {
  const clock = virtualClock();
  let seconds = 0;
  const askNetwork = async (): Promise<readonly NodeProblem[]> =>
    Promise.resolve([{ ...BAD, text: `routes: none for ${String((seconds += 1))} s` }]);
  const problems = new NodeProblems({
    clock,
    random: systemRandom,
    log: silentLog,
    askNetwork,
    collect: (ofNetwork) => ofNetwork,
    store: () => ({ publishReport: async () => Promise.resolve() }),
  });
  const [first] = await problems.current();
  await clock.sleep(60_000, new AbortController().signal);
  const [later] = await problems.current();
  expect([first?.text, later?.text]).toEqual(['routes: none for 1 s', 'routes: none for 2 s']);
  expect(later?.since).toBe(first?.since);
});
