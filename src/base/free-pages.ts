import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Clock } from './clock.ts';

/** Free memory that is worth returning, and the least time between two returns: it stops the program for some collections. */
const WORTH_BYTES = 32 * 1024 * 1024;
const WORTH_SHARE = 0.2;
const APART_MS = 600_000;
/** By then a program has compiled and read what it starts with. */
const STARTED_MS = 30_000;
/** A program that is busy then tries again this much later. */
const BUSY_MS = 1000;

/** What a process takes in memory, and what of it is the heap of JavaScript. */
interface Usage {
  readonly rss: number;
  readonly heapTotal: number;
}

export interface FreePagesPorts {
  readonly monotonic: () => number;
  readonly usage: () => Usage;
  /** Collects garbage, and returns the pages of the heap that are free then to the kernel. */
  readonly collect: () => void;
}

/**
 * Returns free memory to the kernel after something large has passed, such as the list of a cluster. V8 keeps the pages that its heap
 * has left: a server that has read 60 000 pods takes 640 MB with them, and 390 without.
 */
export class FreePages {
  readonly #ports: FreePagesPorts;
  /** The least that the process took beside its heap since it last kept nothing that is free. */
  #neededBytes: number;
  #releasedMs = -Infinity;

  constructor(ports: FreePagesPorts) {
    this.#ports = ports;
    this.#neededBytes = besideHeap(ports.usage());
  }

  /** Returns them if much more is taken beside the heap than before. */
  look(): void {
    const { monotonic, usage } = this.#ports;
    if (monotonic() - this.#releasedMs < APART_MS) return;
    const now = usage();
    this.#neededBytes = Math.min(this.#neededBytes, besideHeap(now));
    if (besideHeap(now) - this.#neededBytes >= Math.max(WORTH_BYTES, now.rss * WORTH_SHARE)) this.release();
  }

  /** Returns them now: something large has just become garbage. */
  release(): void {
    const { monotonic, usage, collect } = this.#ports;
    this.#releasedMs = monotonic();
    collect();
    this.#neededBytes = besideHeap(usage());
  }
}

function besideHeap({ rss, heapTotal }: Usage): number {
  return rss - heapTotal;
}

/** Returns that of this process. */
export function freePagesOf(monotonic: () => number): FreePages {
  return new FreePages({ monotonic, usage: () => process.memoryUsage(), collect: collectLastResort });
}

/** Returns, once after the start of a program, what the start has left, at a moment when the program is not busy. Stops when the signal aborts. */
export async function releaseAfterStart(
  pages: Pick<FreePages, 'release'>,
  { clock, isBusy }: { readonly clock: Pick<Clock, 'sleep'>; readonly isBusy: () => boolean },
  signal: AbortSignal,
): Promise<void> {
  try {
    await clock.sleep(STARTED_MS, signal);
    while (isBusy()) await clock.sleep(BUSY_MS, signal);
    pages.release();
  } catch (cause) {
    if (!signal.aborted) throw cause;
  }
}

/** As a flag of the command line, it would make V8 refuse the code that an executable has compiled: each start would take longer. */
function collectLastResort(): void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as NonNullable<typeof globalThis.gc>;
  gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
