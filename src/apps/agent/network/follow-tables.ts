import type { Clock } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import { Trigger } from '../../../base/trigger.ts';
import { aborted } from '../../../base/until-aborted.ts';
import { visibleText } from '../../../base/visible-text.ts';
import type { TableChange, TableEvents } from '../../../dataplane/table-events.ts';
import { asNodeProblems, type NodeProblem } from '../../../model/node-report.ts';
import { NETWORK_PROBLEMS } from './network-parts.ts';

/** The shortest time between two comparisons, and how many times longer than a comparison it is: a share of the processor. */
const PAUSE = { leastMs: 100, factor: 4 } as const;
/** A firewall that is reloaded changes the tables less often. */
const MOST_CHANGES = 5;
const WITHIN_MS = 60_000;
/** Programs that are named. */
const MOST_PROGRAMS = 3;

interface FollowPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly events: TableEvents;
  /** Compares the tables with their desired state. Resolves when all have been compared, to whether one was not as it should be. */
  readonly compare: (tables: readonly string[]) => Promise<boolean>;
  /** Called when other programs have changed chains or rules of other tables, or may have. */
  readonly onOthers?: () => void;
  /** How the kernel names the processes of netplug: those that serve calls change the tables as well. */
  readonly ownProgram: string;
}

/** What other programs have done to tables, which was repaired. */
interface Repair {
  readonly atMs: number;
  readonly programs: ReadonlySet<string>;
}

/**
 * Compares the tables of netplug as soon as another program has changed them. A program that does so without end takes a bounded
 * share of the processor, and is named.
 */
export class TableFollower {
  readonly #ports: FollowPorts;
  readonly #names: readonly string[];
  readonly #due = new Trigger();
  readonly #changed = new Set<string>();
  readonly #programs = new Set<string>();
  /** Whether what has changed was not only changed by netplug itself. */
  #isForeign = false;
  /** Of the last minute. */
  #repairs: readonly Repair[] = [];
  #failure: string | undefined;

  constructor(ports: FollowPorts, names: readonly string[]) {
    this.#ports = ports;
    this.#names = names;
  }

  /** Says when other programs change the tables again and again, and when the kernel does not report it. */
  problems(): readonly NodeProblem[] {
    const recent = this.#recent();
    return [
      ...asNodeProblems(NETWORK_PROBLEMS.tables, recent.length > MOST_CHANGES ? [changedOften(recent)] : []),
      ...asNodeProblems(
        NETWORK_PROBLEMS.tablesUnwatched,
        this.#failure === undefined ? [] : [unwatched(this.#failure)],
      ),
    ];
  }

  /** Runs until the signal aborts. Tables that cannot be watched are compared by the periods of their owners alone. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, compare } = this.#ports;
    using _watch = this.#watch();
    while (!signal.aborted) {
      await this.#due.wait(signal);
      if (signal.aborted) return;
      this.#due.clear();
      const [tables, programs, isForeign] = [[...this.#changed], new Set(this.#programs), this.#isForeign];
      this.#changed.clear();
      this.#programs.clear();
      this.#isForeign = false;
      const startMs = clock.monotonic();
      const isRepaired = await Promise.race([compare(tables), aborted(signal)]);
      if (isRepaired === true && isForeign) this.#note({ atMs: startMs, programs }, tables);
      const tookMs = clock.monotonic() - startMs;
      await clock.sleep(Math.max(PAUSE.leastMs, tookMs * PAUSE.factor), signal).catch(() => undefined);
    }
  }

  #watch(): Disposable | undefined {
    const { events, log } = this.#ports;
    try {
      return events.watch(this.#names, (change) => this.#take(change));
    } catch (cause) {
      this.#failure = reasonOf(cause);
      log.warning('nftables not watched', { reason: this.#failure });
      return undefined;
    }
  }

  #take({ tables, program, hasChangedOthers }: TableChange): void {
    const { ownProgram, onOthers } = this.#ports;
    if (hasChangedOthers === true || tables === 'unknown') onOthers?.();
    if (tables.length === 0) return;
    for (const table of tables === 'unknown' ? this.#names : tables) this.#changed.add(table);
    const isOwn = program !== undefined && program === ownProgram;
    this.#isForeign ||= !isOwn;
    if (program !== undefined && !isOwn && this.#programs.size < MOST_PROGRAMS)
      this.#programs.add(visibleText(program));
    this.#due.set();
  }

  /** Logs the first change of a row. */
  #note(repair: Repair, tables: readonly string[]): void {
    const recent = this.#recent();
    this.#repairs = [...recent, repair];
    if (recent.length === 0)
      this.#ports.log.warning('tables changed by another program', { tables, programs: [...repair.programs] });
  }

  #recent(): readonly Repair[] {
    const sinceMs = this.#ports.clock.monotonic() - WITHIN_MS;
    return this.#repairs.filter(({ atMs }) => atMs > sinceMs);
  }
}

/** It does not say how often, because what changes is reported again. */
function changedOften(repairs: readonly Repair[]): string {
  const programs = new Set(repairs.flatMap((each) => [...each.programs]));
  const names = [...programs].slice(0, MOST_PROGRAMS).map((name) => `"${name}"`);
  const which = names.length === 0 ? 'another program' : names.join(', ');
  return `nftables: ${which} changed or removed tables of netplug again and again within the last minute; pods are open each time until the tables are back`;
}

function unwatched(reason: string): string {
  return `nftables: changes by other programs are noticed only every ten seconds: ${reason}`;
}
