// STATUS, which a runtime may ask every few seconds.
import { type Testbed, newPods, openTestbed } from '../testbed.ts';
import { type Candidate, jobOf } from '../candidates.ts';
import { latencyOf, measure, type Measured } from '../attach-rounds.ts';
import type { MeasureRow } from '../report.ts';

/** The clock that counts what an agent uses is coarse, so that there must be many calls. */
const CALLS_PER_SAMPLE = 5;
const CALLS_PER_BATCH = 50;
const KNOWS_STATUS = '1.1.0';

export const measureStatus: MeasureRow = async ({ samples, candidates }) => {
  // Debian's plugins are older than STATUS.
  const netplugs = candidates.filter((name) => name !== 'ptp');
  await using testbed = await openTestbed({ candidates: netplugs, namespaces: 1 });
  const latencies = [];
  for (const candidate of testbed.candidates) {
    const calls = candidate.agent === undefined ? samples : samples * CALLS_PER_SAMPLE;
    // A node without any pod has no block yet, and would have to look for one.
    const pods = newPods(testbed, 1);
    await testbed.call(candidate, 'ADD', { pods });
    await askForStatus(testbed, { candidate, calls: 10 });
    const measured: Measured[] = [];
    for (let done = 0; done < calls; done += CALLS_PER_BATCH) {
      const batch = Math.min(CALLS_PER_BATCH, calls - done);
      measured.push(await measure(candidate, async () => askForStatus(testbed, { candidate, calls: batch })));
    }
    await testbed.call(candidate, 'DEL', { pods });
    latencies.push({ what: 'STATUS', candidate: candidate.name, ...latencyOf(measured) });
  }
  return {
    latencies,
    figures: latencies.map(({ candidate, cpuMs }) => ({
      id: `status.cpu.${candidate}`,
      what: `CPU per STATUS, ${candidate}`,
      value: cpuMs,
      unit: 'ms',
    })),
  };
};

async function askForStatus(
  testbed: Testbed,
  { candidate, calls }: { candidate: Candidate; calls: number },
): Promise<Measured['samples']> {
  const job = jobOf({ ...candidate, conf: { ...candidate.conf, cniVersion: KNOWS_STATUS } }, 'STATUS');
  const { runs } = await testbed.launcher.run(Array.from({ length: calls }, () => job));
  const refused = runs.find(({ status }) => status !== 0);
  if (refused !== undefined) throw new Error(`${candidate.name} STATUS: ${refused.stdout}\n${testbed.launcher.log()}`);
  return runs;
}
