// Requests of a warm ADD and DEL to the datastore, and whether both get on while it is silent.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Arena, newPods } from './arena.ts';
import { type Attachment, type Contestant, jobOf } from './contestants.ts';
import { until } from '../../test/support/until.ts';
import type { Figure } from './report.ts';

export interface Datastore {
  /** Makes them known to it, as far as it has to know them. */
  register(pods: readonly Attachment[]): Promise<readonly Attachment[]>;
  /** Requests that it has seen so far. */
  countRequests(): Promise<number>;
  /** Silences it; what is returned lets it answer again. */
  pause(): Promise<() => Promise<void>>;
}

export interface PodRequests {
  readonly contestant: string;
  readonly perPod: number;
  /** Calls that failed or were held up while the datastore was silent; undefined where each of them would. */
  readonly awaited: number | undefined;
}

/** Namespaces that an arena for this needs. */
export const PODS_IN_FLIGHT = 10;
const ROUNDS = 5;
const PAUSES = 5;
/** Far above what a call takes, and below what anybody waits for a datastore. */
const HELD_UP_MS = 500;
/** Lets the datastore answer again, so that waiting calls continue. */
const MOST_SILENT_MS = 2000;
/** What an agent has put off is done when it has been quiet for so long. */
const QUIET_MS = 1500;

export async function requestsPerPod(arena: Arena, datastore: Datastore): Promise<PodRequests[]> {
  const found: PodRequests[] = [];
  for (const contestant of arena.contestants) {
    await attachAndDetach(arena, { contestant, datastore });
    await becomeQuiet(datastore);
    const before = await datastore.countRequests();
    for (let round = 0; round < ROUNDS; round += 1) await attachAndDetach(arena, { contestant, datastore });
    await becomeQuiet(datastore);
    const perPod = ((await datastore.countRequests()) - before) / (ROUNDS * PODS_IN_FLIGHT);
    const awaited = contestant.agent === undefined ? undefined : await countAwaited(arena, { contestant, datastore });
    found.push({ contestant: contestant.name, perPod, awaited });
  }
  return found;
}

export function figuresOf(datastore: string, measured: readonly PodRequests[]): Figure[] {
  return measured.flatMap(({ contestant, perPod, awaited }) => [
    {
      id: `requests.${datastore}.${contestant}`,
      what: `requests per pod on ${datastore}, ADD and DEL, ${contestant}`,
      value: perPod,
      unit: '',
    },
    ...(awaited === undefined
      ? []
      : [
          {
            id: `awaited.${datastore}.${contestant}`,
            what: `ADDs and DELs of ${String(2 * PAUSES)} held up by a silent ${datastore}, ${contestant}`,
            value: awaited,
            unit: '',
          },
        ]),
  ]);
}

interface Meeting {
  readonly contestant: Contestant;
  readonly datastore: Datastore;
}

async function attachAndDetach(arena: Arena, { contestant, datastore }: Meeting): Promise<void> {
  const pods = await datastore.register(newPods(arena, PODS_IN_FLIGHT));
  await arena.call(contestant, 'ADD', { pods });
  await arena.call(contestant, 'DEL', { pods });
}

async function becomeQuiet(datastore: Datastore): Promise<void> {
  let last = -1;
  await until(
    async () => {
      const now = await datastore.countRequests();
      const isQuiet = now === last;
      last = now;
      return isQuiet;
    },
    'nothing more reaches the datastore',
    20_000,
    QUIET_MS,
  );
}

async function countAwaited(arena: Arena, { contestant, datastore }: Meeting): Promise<number> {
  let awaited = 0;
  for (let round = 0; round < PAUSES; round += 1) {
    const pods = await datastore.register(newPods(arena, 1));
    await becomeQuiet(datastore);
    const resume = await datastore.pause();
    const work = arena.launcher.run(
      pods.flatMap((pod) => [jobOf(contestant, 'ADD', pod), jobOf(contestant, 'DEL', pod)]),
    );
    await Promise.race([work, sleep(MOST_SILENT_MS)]);
    await resume();
    const { runs } = await work;
    awaited += runs.filter(({ status, ms }) => status !== 0 || ms > HELD_UP_MS).length;
  }
  return awaited;
}
