import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LeaseServer } from '../../../support/leader-candidate.ts';
import { stopThreads } from '../../../support/stop-threads.ts';
import { until } from '../../../support/until.ts';

export interface ProcessFixture extends AsyncDisposable {
  readonly server: LeaseServer;
  readonly pause: () => Promise<void>;
  readonly resume: () => Promise<void>;
}

const DURATION_MS = 5000;
/** A candidate looks at the lease every third of it. */
const LONG_MS = 60_000;
/** Until the second candidate campaigns. */
const STAND_BY_MS = 1500;
const PROGRAM = fileURLToPath(new URL('../../../support/leader-candidate.ts', import.meta.url));

/** No two processes lead at one time, whatever happens to them and to the server. */
export function leaderProcessContract(name: string, start: () => Promise<ProcessFixture>): void {
  describe(`processes that lead by a lease on ${name}`, () => {
    let fixture: ProcessFixture;
    let count = 0;
    beforeAll(async () => void (fixture = await start()));
    afterAll(async () => fixture[Symbol.asyncDispose]());

    /** The first leads, the second stands by. */
    const pair = async (durationMs = DURATION_MS): Promise<AsyncDisposable & { a: Candidate; b: Candidate }> => {
      count += 1;
      const options = { server: fixture.server, name: `processes-${String(count)}`, durationMs };
      const a = new Candidate({ ...options, holder: 'a' });
      await a.leads();
      const b = new Candidate({ ...options, holder: 'b' });
      await sleep(STAND_BY_MS);
      return {
        a,
        b,
        [Symbol.asyncDispose]: async () => {
          await Promise.all([a.end('SIGKILL'), b.end('SIGKILL')]);
        },
      };
    };

    it('hand over when the leader stops, long before the second looks at the lease again', async () => {
      await using both = await pair(LONG_MS);
      await both.a.end('SIGTERM');
      await both.b.leads();
      expect(both.b.firstMs - both.a.lastMs).toBeLessThan(LONG_MS / 6);
      expectOneLeader(both);
    });

    it('take over from a leader that was killed', async () => {
      await using both = await pair();
      await both.a.end('SIGKILL');
      await both.b.leads();
      expectOneLeader(both);
    });

    it('take over from a leader that is paused, which does not lead when it is resumed', async () => {
      await using both = await pair();
      await stopThreads(both.a.child.pid!);
      await both.b.leads();
      await sleep(200);
      both.a.child.kill('SIGCONT');
      await sleep(DURATION_MS);
      expect(both.a.lastMs).toBeLessThan(both.b.firstMs);
      await until(() => both.b.isLeading, 'the second leads on');
      expectOneLeader(both);
    });

    it('stop leading while the server does not answer, and lead again afterwards', async () => {
      await using both = await pair();
      const pausedMs = nowMs();
      await fixture.pause();
      try {
        await sleep(1.5 * DURATION_MS);
        expect(both.a.lastMs - pausedMs).toBeLessThan(DURATION_MS);
      } finally {
        await fixture.resume();
      }
      const resumedMs = nowMs();
      while (both.a.lastMs < resumedMs && both.b.lastMs < resumedMs) await sleep(20);
      await sleep(DURATION_MS);
      expectOneLeader(both);
    });
  });
}

/** On the monotonic clock, which processes share. */
function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

class Candidate {
  readonly child: ChildProcess;
  /** When it led, in milliseconds on the monotonic clock. */
  readonly ticks: number[] = [];
  #log = '';

  constructor(options: object) {
    this.child = spawn(process.execPath, [PROGRAM, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'pipe'] });
    let rest = '';
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      const lines = `${rest}${text}`.split('\n');
      rest = lines.pop() ?? '';
      this.ticks.push(...lines.map((line) => Number(BigInt(line)) / 1e6));
    });
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.#log += text));
  }

  get firstMs(): number {
    return this.ticks[0] ?? Number.POSITIVE_INFINITY;
  }

  get lastMs(): number {
    return this.ticks.at(-1) ?? Number.NEGATIVE_INFINITY;
  }

  get isLeading(): boolean {
    return nowMs() - this.lastMs < 500;
  }

  async leads(): Promise<void> {
    await until(
      () => this.ticks.length > 0,
      () => `it leads; it says:\n${this.#log}`,
    );
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const closed = once(this.child, 'close');
    this.child.kill(signal);
    await closed;
  }
}

/** In the order of time, one led until the other began. */
function expectOneLeader({ a, b }: { readonly a: Candidate; readonly b: Candidate }): void {
  const ticks = [a, b].flatMap(({ ticks: all }, who) => all.map((ms) => ({ ms, who }))).toSorted((x, y) => x.ms - y.ms);
  const changes = ticks.filter(({ who }, index) => index > 0 && ticks[index - 1]!.who !== who);
  expect(changes.length, `leaders change at ${changes.map(({ ms }) => ms).join(', ')}`).toBeLessThanOrEqual(1);
}
