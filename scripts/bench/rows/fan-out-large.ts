// netplug-typha in the largest cluster: what a server with 150 000 pods and 500 clients takes.
import { setTimeout as sleep } from 'node:timers/promises';
import { CountingSwarm } from '../../../test/support/follow-swarm.ts';
import { until } from '../../../test/support/until.ts';
import { startFanOutProcess } from '../fan-out-process.ts';
import type { MeasureRow } from '../report.ts';

const PODS = 150_000;
const CLIENTS = 500;
/** Texts of 150 000 pods and as many endpoints are made and read. */
const READ_MS = 600_000;
const SETTLE_MS = 10_000;

export const measureFanOutLarge: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using server = await startFanOutProcess(PODS);
  await until(async () => server.isLoaded(), 'the server has read the cluster', READ_MS);
  const loaded = await server.collect();
  using swarm = new CountingSwarm(await server.entry());
  await swarm.connect(CLIENTS);
  await until(() => swarm.counts.complete === CLIENTS, 'all clients are complete', READ_MS);
  await sleep(SETTLE_MS);
  const { rssMb, peakMb } = await server.usage();
  const size = `${String(PODS)} pods`;
  return {
    figures: [
      { id: 'fan-out-large.read', what: `memory of the server with ${size}`, value: loaded.rssMb, unit: 'MB' },
      {
        id: 'fan-out-large.rss',
        what: `memory of the server with ${size} and ${String(CLIENTS)} clients`,
        value: rssMb,
        unit: 'MB',
      },
      { id: 'fan-out-large.peak', what: 'the most that it ever was', value: peakMb, unit: 'MB' },
    ],
  };
};
