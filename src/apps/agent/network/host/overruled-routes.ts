import type { RetryPorts } from '../../../../base/back-off.ts';
import type { Log } from '../../../../base/log.ts';
import type { OverruledPath, WantedPath } from '../../../../dataplane/overruled-paths.ts';
import { asNodeProblems, type NodeProblem } from '../../../../model/node-report.ts';
import { formatAddress } from '../../../../net/address.ts';
import { formatCidr } from '../../../../net/cidr.ts';
import { firstPods, listWantedPaths, overruledProblems, type PathPorts } from '../../../../routing/overruled-routes.ts';
import { Reconciler } from '../../../../runtime/reconciler.ts';

/** The kernel does not report that a rule or a route goes before one of netplug. */
const RESYNC_MS = 10_000;
/** Paths that one run looks up: 10 ms of the kernel. A node with more has them looked up in several runs. */
const PATHS_PER_RUN = 256;
const CODE = 'network/route-overruled';

interface OverruledPorts extends RetryPorts {
  readonly log: Log;
  readonly host: PathPorts;
}

/**
 * Looks up whether packets take the routes of netplug, to pods of the node and to blocks of other nodes. Routes and rules of other
 * programs stay, and are problems of the node.
 */
export class OverruledRoutes {
  readonly #ports: OverruledPorts;
  readonly #reconciler: Reconciler;
  /** What is left of the round, of which each path is looked up once. */
  #rest: readonly WantedPath[] = [];
  #senders: readonly WantedPath[] = [];
  /** By path, as it was last looked up. */
  readonly #overruled = new Map<string, OverruledPath>();
  #problems: readonly NodeProblem[] = [];

  constructor(ports: OverruledPorts) {
    this.#ports = ports;
    const { clock, random, log } = ports;
    this.#reconciler = new Reconciler({
      name: 'route look-ups',
      clock,
      random,
      log,
      reconcile: async () => this.reconcile(),
      resyncMs: RESYNC_MS,
    });
  }

  /** What packets do in place of taking netplug's routes, a problem for each cause, and why that is not known. */
  problems(): readonly NodeProblem[] {
    const kind = { code: 'network/behind', severity: 'warning' } as const;
    const failures = this.#reconciler.isUnrun ? [] : this.#reconciler.explain('lastError');
    return [...this.#problems, ...asNodeProblems(kind, failures)];
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#reconciler.trigger();
    await this.#reconciler.run(signal);
  }

  /** Looks up the next paths. @throws kernel/failed */
  async reconcile(): Promise<void> {
    const { host } = this.#ports;
    if (this.#rest.length === 0) await this.#beginRound();
    const asked = this.#rest.slice(0, PATHS_PER_RUN);
    const others = this.#senders.filter((pod) => !asked.includes(pod));
    const found = await host.findOverruled([...others, ...asked]);
    this.#rest = this.#rest.slice(PATHS_PER_RUN);
    for (const path of [...others, ...asked]) this.#overruled.delete(nameOf(path));
    for (const each of found) this.#overruled.set(nameOf(each.path), each);
    this.#describe();
  }

  /** Lists the paths again, and forgets those that exist no more. */
  async #beginRound(): Promise<void> {
    this.#rest = await listWantedPaths(this.#ports.host);
    this.#senders = firstPods(this.#rest);
    const names = new Set(this.#rest.map(nameOf));
    for (const name of this.#overruled.keys()) if (!names.has(name)) this.#overruled.delete(name);
  }

  #describe(): void {
    const { log } = this.#ports;
    const before = new Set(this.#problems.map(({ text }) => text));
    this.#problems = overruledProblems([...this.#overruled.values()]).map((each) => ({ code: CODE, ...each }));
    for (const { text, remedy } of this.#problems)
      if (!before.has(text)) log.warning('route overruled', { reason: text, remedy });
    if (before.size > 0 && this.#problems.length === 0) log.info('routes no longer overruled', {});
  }
}

function nameOf({ address, destination, device }: WantedPath): string {
  return `${formatAddress(address)} ${formatCidr(destination)} ${device}`;
}
