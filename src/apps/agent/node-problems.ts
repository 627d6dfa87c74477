import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../base/errors.ts';
import { BackOff, type RetryPorts } from '../../base/back-off.ts';
import type { Log } from '../../base/log.ts';
import type { NodeStatusStore } from '../../datastore/node-status-store.ts';
import type { NodeName } from '../../model/names.ts';
import {
  NODE_SEVERITIES,
  type NodeProblem,
  type NodeReportSpec,
  problemName,
  type ReportedNodeProblem,
} from '../../model/node-report.ts';
import { boundedReport } from '../../model/bounded-report.ts';

/** Interval at which the problems are looked at for the report. */
const LOOK_MS = 5000;
/** The shortest time between two writes. */
const PAUSE_MS = 10_000;
/** The same while only texts change: a tenant may change those of all nodes again and again. */
const TEXT_PAUSE_MS = 60_000;
/** Interval at which an unchanged report is written again, so that its age says something. */
const RENEW_MS = 10 * 60_000;
const BACK_OFF = { firstMs: 10_000, maxMs: 60_000, maxRefusedMs: 10 * 60_000 };

interface NodeProblemPorts extends RetryPorts {
  readonly log: Log;
  readonly store: () => Pick<NodeStatusStore, 'publishReport'>;
  /** Asks the network process for its problems. */
  readonly askNetwork: () => Promise<readonly NodeProblem[]>;
  /** Returns all problems as they are now, with those of the network process in their place. */
  readonly collect: (ofNetwork: readonly NodeProblem[]) => readonly NodeProblem[];
}

/** Everything that the agent knows to be wrong on its node, and since when. */
export class NodeProblems {
  readonly #ports: NodeProblemPorts;
  /** RFC 3339, by the name of the problem. */
  #since = new Map<string, string>();

  constructor(ports: NodeProblemPorts) {
    this.#ports = ports;
  }

  /** Returns the problems of this moment, errors first. */
  async current(): Promise<readonly ReportedNodeProblem[]> {
    return this.with(await this.#ports.askNetwork());
  }

  /** The same for a caller that has asked the network process already. */
  with(ofNetwork: readonly NodeProblem[]): readonly ReportedNodeProblem[] {
    const found = this.#ports.collect(ofNetwork);
    const now = new Date(this.#ports.clock.now()).toISOString();
    const before = this.#since;
    this.#since = new Map(found.map((each) => [problemName(each), before.get(problemName(each)) ?? now]));
    const problems = found.map((each) => ({ ...each, since: this.#since.get(problemName(each)) ?? now }));
    return NODE_SEVERITIES.flatMap((severity) => problems.filter((each) => each.severity === severity));
  }

  /** Publishes what holds at two looks in a row, until the signal aborts. */
  async publish(
    { node, release }: { readonly node: NodeName; readonly release: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, log, store } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    let seen = new Set<string>();
    let written: { readonly report: NodeReportSpec; readonly atMs: number } | undefined;
    while (!signal.aborted) {
      await clock.sleep(LOOK_MS, signal).catch(() => undefined);
      try {
        const current = await this.current();
        const report = { release, ...boundedReport(current.filter((each) => seen.has(problemName(each)))) };
        seen = new Set(current.map(problemName));
        const ageMs = clock.monotonic() - (written?.atMs ?? Number.NEGATIVE_INFINITY);
        if (signal.aborted || ageMs < dueMs(written?.report, report)) continue;
        await store().publishReport(node, { ...report, reportedAt: new Date(clock.now()).toISOString() }, signal);
        written = { report, atMs: clock.monotonic() };
        backOff.succeed();
      } catch (cause) {
        if (signal.aborted) return;
        log.debug('problems not published', { reason: reasonOf(cause) });
        backOff.fail(cause);
        await backOff.wait(signal);
      }
    }
  }
}

/** Returns the age in milliseconds at which a report is replaced by the next. */
function dueMs(before: NodeReportSpec | undefined, after: NodeReportSpec): number {
  if (before === undefined) return 0;
  if (isDeepStrictEqual(before, after)) return RENEW_MS;
  return isDeepStrictEqual(kindsIn(before), kindsIn(after)) ? TEXT_PAUSE_MS : PAUSE_MS;
}

function kindsIn({ problems }: NodeReportSpec): readonly string[] {
  return [...new Set(problems.map(({ code, severity }) => `${severity} ${code}`))].sort();
}
