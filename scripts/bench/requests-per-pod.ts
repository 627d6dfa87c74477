// Requests of a warm ADD and DEL to the datastore, and whether both get on while it is silent.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Testbed, newPods } from './testbed.ts';
import { type Attachment, type Candidate, jobOf } from './candidates.ts';
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
  readonly candidate: string;
  readonly perPod: number;
  /** Calls that failed or were held up while the datastore was silent; undefined where each of them would. */
  readonly awaited: number | undefined;
}

/** Namespaces that a testbed for this needs. */
export const PODS_IN_FLIGHT = 10;
const ROUNDS = 5;
const PAUSES = 5;
/** Far above what a call takes, and below what anybody waits for a datastore. */
const HELD_UP_MS = 500;
/** Lets the datastore answer again, so that waiting calls continue. */
const MOST_SILENT_MS = 2000;
/** What an agent has put off is done when it has been quiet for so long. */
const QUIET_MS = 1500;

export async function requestsPerPod(testbed: Testbed, datastore: Datastore): Promise<PodRequests[]> {
  const found: PodRequests[] = [];
  for (const candidate of testbed.candidates) {
    await attachAndDetach(testbed, { candidate, datastore });
    await becomeQuiet(datastore);
    const before = await datastore.countRequests();
    for (let round = 0; round < ROUNDS; round += 1) await attachAndDetach(testbed, { candidate, datastore });
    await becomeQuiet(datastore);
    const perPod = ((await datastore.countRequests()) - before) / (ROUNDS * PODS_IN_FLIGHT);
    const awaited = candidate.agent === undefined ? undefined : await countAwaited(testbed, { candidate, datastore });
    found.push({ candidate: candidate.name, perPod, awaited });
  }
  return found;
}

export function figuresOf(datastore: string, measured: readonly PodRequests[]): Figure[] {
  return measured.flatMap(({ candidate, perPod, awaited }) => [
    {
      id: `requests.${datastore}.${candidate}`,
      what: `requests per pod on ${datastore}, ADD and DEL, ${candidate}`,
      value: perPod,
      unit: '',
    },
    ...(awaited === undefined
      ? []
      : [
          {
            id: `awaited.${datastore}.${candidate}`,
            what: `ADDs and DELs of ${String(2 * PAUSES)} held up by a silent ${datastore}, ${candidate}`,
            value: awaited,
            unit: '',
          },
        ]),
  ]);
}

interface Meeting {
  readonly candidate: Candidate;
  readonly datastore: Datastore;
}

async function attachAndDetach(testbed: Testbed, { candidate, datastore }: Meeting): Promise<void> {
  const pods = await datastore.register(newPods(testbed, PODS_IN_FLIGHT));
  await testbed.call(candidate, 'ADD', { pods });
  await testbed.call(candidate, 'DEL', { pods });
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

async function countAwaited(testbed: Testbed, { candidate, datastore }: Meeting): Promise<number> {
  let awaited = 0;
  for (let round = 0; round < PAUSES; round += 1) {
    const pods = await datastore.register(newPods(testbed, 1));
    await becomeQuiet(datastore);
    const resume = await datastore.pause();
    const work = testbed.launcher.run(
      pods.flatMap((pod) => [jobOf(candidate, 'ADD', pod), jobOf(candidate, 'DEL', pod)]),
    );
    await Promise.race([work, sleep(MOST_SILENT_MS)]);
    await resume();
    const { runs } = await work;
    awaited += runs.filter(({ status, ms }) => status !== 0 || ms > HELD_UP_MS).length;
  }
  return awaited;
}
