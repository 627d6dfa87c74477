// STATUS, which a runtime may ask every few seconds.
import { type Arena, newPods, openArena } from '../arena.ts';
import { type Contestant, jobOf } from '../contestants.ts';
import { latencyOf, measure, type Measured } from '../attach-rounds.ts';
import type { MeasureRow } from '../report.ts';

/** The clock that counts what an agent uses is coarse, so that there must be many calls. */
const CALLS_PER_SAMPLE = 5;
const CALLS_PER_BATCH = 50;
const KNOWS_STATUS = '1.1.0';

export const measureStatus: MeasureRow = async ({ samples, contestants }) => {
  // Debian's plugins are older than STATUS.
  const netplugs = contestants.filter((name) => name !== 'ptp');
  await using arena = await openArena({ contestants: netplugs, namespaces: 1 });
  const latencies = [];
  for (const contestant of arena.contestants) {
    const calls = contestant.agent === undefined ? samples : samples * CALLS_PER_SAMPLE;
    // A node without any pod has no block yet, and would have to look for one.
    const pods = newPods(arena, 1);
    await arena.call(contestant, 'ADD', { pods });
    await askForStatus(arena, { contestant, calls: 10 });
    const measured: Measured[] = [];
    for (let done = 0; done < calls; done += CALLS_PER_BATCH) {
      const batch = Math.min(CALLS_PER_BATCH, calls - done);
      measured.push(await measure(contestant, async () => askForStatus(arena, { contestant, calls: batch })));
    }
    await arena.call(contestant, 'DEL', { pods });
    latencies.push({ what: 'STATUS', contestant: contestant.name, ...latencyOf(measured) });
  }
  return {
    latencies,
    figures: latencies.map(({ contestant, cpuMs }) => ({
      id: `status.cpu.${contestant}`,
      what: `CPU per STATUS, ${contestant}`,
      value: cpuMs,
      unit: 'ms',
    })),
  };
};

async function askForStatus(
  arena: Arena,
  { contestant, calls }: { contestant: Contestant; calls: number },
): Promise<Measured['samples']> {
  const job = jobOf({ ...contestant, conf: { ...contestant.conf, cniVersion: KNOWS_STATUS } }, 'STATUS');
  const { runs } = await arena.launcher.run(Array.from({ length: calls }, () => job));
  const refused = runs.find(({ status }) => status !== 0);
  if (refused !== undefined) throw new Error(`${contestant.name} STATUS: ${refused.stdout}\n${arena.launcher.log()}`);
  return runs;
}
