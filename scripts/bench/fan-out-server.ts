// A server of netplug-typha in a process of its own, in front of a replayed API. Started by rows/fan-out.ts, which tells it what
// happens at the API.
import { never } from '../../src/base/errors.ts';
import { apiVersionOf } from '../../src/datastore/orch/follow.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { ApplyingClient } from '../../test/support/follow-swarm.ts';
import { typhaOverTls } from '../../test/support/typha-over-tls.ts';
import { until } from '../../test/support/until.ts';
import { conversionMs, EVENTS_OF_POD, movePod, openFanOutCluster, writeMarked } from './fan-out-cluster.ts';
import type { ServerCall, ServerReply, ServerUsage } from './fan-out-process.ts';
import { FIRST_SINGLE } from './remote-pods.ts';

/** Clients of one address, and connections at once: here all have the same address. */
const PENDING = { atOnce: 200, waiting: 5000, ofOneAddress: 6000 };
const TICK_MS = 10;
/** Between two events of a pod. */
const STEP_MS = 800;

const begun = process.cpuUsage();
const api = openFanOutCluster();
const store = openOrchStore(
  { from: 'api-root', url: 'http://127.0.0.1:1' },
  { transport: api.transport, withStored: true },
);
const { typha, entry } = await typhaOverTls(store, { maxClients: 2000, pending: PENDING, versionOf: apiVersionOf });
let churn: NodeJS.Timeout | undefined;
let next = FIRST_SINGLE;

process.on('message', (call: ServerCall) => {
  void carryOut(call).then((value) => process.send?.({ id: call.id, value } satisfies ServerReply));
});
process.once('disconnect', () => process.exit());
process.send?.('ready');

async function carryOut(call: ServerCall): Promise<unknown> {
  switch (call.what) {
    case 'entry':
      return entry;
    case 'isLoaded':
      return [...typha.service.topics].every(({ isCurrent }) => isCurrent);
    case 'usage':
      return usage();
    case 'collect':
      globalThis.gc?.();
      return usage();
    case 'write': {
      const atNs = process.hrtime.bigint();
      writeMarked(api, call.mark);
      return String(atNs);
    }
    case 'churn':
      setChurn(call.podsPerSecond);
      return undefined;
    case 'convert':
      return conversionMs();
    case 'digest': {
      const client = new ApplyingClient(store);
      await until(() => client.isComplete, 'the records of the API are read');
      const digest = client.digest();
      await client.end();
      return digest;
    }
    default:
      return never(call);
  }
}

function usage(): ServerUsage {
  const { user, system } = process.cpuUsage(begun);
  return {
    // What replays the API is no part of the server.
    cpuMs: (user + system) / 1000 - api.counts.cpuMs,
    rssMb: process.memoryUsage.rss() / 2 ** 20,
    heapMb: process.memoryUsage().heapUsed / 2 ** 20,
    peakMb: process.resourceUsage().maxRSS / 1024,
    clients: typha.service.sessions.size,
    api: { ...api.counts },
    records: [...typha.service.topics].reduce((sum, { records }) => sum + records.size, 0),
  };
}

/** Pods start at an even rate, and each has all of its events until the rate is set again. */
function setChurn(podsPerSecond: number): void {
  clearInterval(churn);
  if (podsPerSecond === 0) return;
  const [beganMs, first] = [performance.now(), next];
  const done = Array.from({ length: EVENTS_OF_POD }, () => first);
  churn = setInterval(() => {
    for (const [step, reached] of done.entries()) {
      const due = first + Math.floor(((performance.now() - beganMs - step * STEP_MS) * podsPerSecond) / 1000);
      for (let pod = reached; pod < due; pod += 1) movePod(api, pod, step);
      done[step] = Math.max(reached, due);
    }
    next = Math.max(next, done[0] ?? next);
  }, TICK_MS);
}
