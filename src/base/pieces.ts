import { ownTurn } from './turns.ts';

/** Long work that may be left alone for a while wherever it yields, and comes to a result in the end. */
export type Pieces<T> = Generator<undefined, T, undefined>;

/** What all of them together have of one turn of the event loop; others are at work in it too. */
const PIECES_MS = 1;
let usedMs = 0;

/** Does the work in pieces, over as many turns of the event loop as it takes, so that nobody waits for all of it. */
export async function inPieces<T>(work: Pieces<T>, nowMs = (): number => performance.now()): Promise<T> {
  let sinceMs = nowMs();
  for (;;) {
    const step = work.next();
    const untilMs = nowMs();
    use(untilMs - sinceMs);
    sinceMs = untilMs;
    if (step.done === true) return step.value;
    if (usedMs < PIECES_MS) continue;
    await ownTurn();
    sinceMs = nowMs();
  }
}

function use(ms: number): void {
  if (usedMs === 0) setImmediate(() => (usedMs = 0));
  usedMs += ms;
}

/** What becomes of each. */
export function* mapPieces<T, U>(all: Iterable<T>, become: (one: T) => U): Pieces<U[]> {
  const became: U[] = [];
  for (const one of all) {
    yield;
    became.push(become(one));
  }
  return became;
}

/** Does all of it now. */
export function atOnce<T>(work: Pieces<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}
