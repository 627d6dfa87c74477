import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { Trigger } from '../../../../base/trigger.ts';
import type { NodeProblem } from '../../../../model/node-report.ts';

/** How many times longer than an inspection the pause after it is: a share of the processor. */
const FACTOR = 50;

/** Looks at something of the host that other programs own, and that the agent leaves as it is. */
export interface HostInspection {
  readonly name: string;
  readonly everyMs: number;
  /** The shortest pause after one, also when it is asked for. */
  readonly pauseMs: number;
  /** Returns what is wrong; undefined before it can be judged. */
  readonly inspect: (signal: AbortSignal) => Promise<readonly NodeProblem[] | undefined>;
}

/** Inspects the host periodically and when asked, and has what was found. What could not be inspected is not a problem. */
export class HostInspector {
  readonly #ports: { readonly clock: Clock; readonly log: Log };
  readonly #inspections: readonly HostInspection[];
  readonly #due: ReadonlyMap<string, Trigger>;
  readonly #found = new Map<string, readonly NodeProblem[]>();

  constructor(ports: { readonly clock: Clock; readonly log: Log }, inspections: readonly HostInspection[]) {
    this.#ports = ports;
    this.#inspections = inspections;
    this.#due = new Map(inspections.map(({ name }) => [name, new Trigger()]));
  }

  problems(): readonly NodeProblem[] {
    return this.#inspections.flatMap(({ name }) => this.#found.get(name) ?? []);
  }

  /** Requests an inspection; it takes place when its pause is over. */
  request(name: string): void {
    this.#due.get(name)?.set();
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#inspections.map(async (each) => this.#repeat(each, signal)));
  }

  async #repeat({ name, everyMs, pauseMs, inspect }: HostInspection, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    let failure: string | undefined;
    let problems: readonly NodeProblem[] | undefined;
    while (!signal.aborted) {
      this.#due.get(name)?.clear();
      const startMs = clock.monotonic();
      try {
        problems = await inspect(signal);
        const known = new Set(this.#found.get(name)?.map(({ code }) => code));
        for (const problem of problems ?? [])
          if (!known.has(problem.code)) log.warning('host problem found', { ...problem });
        this.#found.set(name, problems ?? []);
        failure = undefined;
      } catch (cause) {
        if (signal.aborted) return;
        const reason = reasonOf(cause);
        if (reason !== failure) log.warning('host not inspected', { inspection: name, reason });
        failure = reason;
        problems = [];
        this.#found.set(name, problems);
      }
      const pause = Math.max(pauseMs, (clock.monotonic() - startMs) * FACTOR);
      await clock.sleep(pause, signal).catch(() => undefined);
      if (problems === undefined || pause >= everyMs) continue;
      await this.#due.get(name)?.wait(signal, { limitMs: Math.max(0, everyMs - pause), clock });
    }
  }
}
