import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { describeIncomplete, type HostSides } from '../../../../dataplane/kernel.ts';

/** Interval at which to compare the settings of links too, which the kernel does not report. */
const SETTINGS_MS = 60_000;

/** Makes what an ADD made on the host side of a link again when other programs, or a link that was down, took it away. */
export class LinkRestorer {
  readonly #ports: { readonly hostSides: HostSides; readonly clock: Clock; readonly log: Log };
  #comparedAtMs = Number.NEGATIVE_INFINITY;
  #restored = 0;
  #problems: readonly string[] = [];

  constructor(ports: { readonly hostSides: HostSides; readonly clock: Clock; readonly log: Log }) {
    this.#ports = ports;
  }

  /** Links that could not be restored, a sentence each. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** The number of links that were restored. */
  get restored(): number {
    return this.#restored;
  }

  /** @throws kernel/failed */
  async reconcile(): Promise<void> {
    const { hostSides, clock, log } = this.#ports;
    const settings = clock.monotonic() - this.#comparedAtMs >= SETTINGS_MS;
    const incomplete = await hostSides.listIncompleteLinks({ settings });
    if (settings) this.#comparedAtMs = clock.monotonic();
    const problems: string[] = [];
    for (const each of incomplete) {
      const { link, missing } = each;
      const { name: device, owner } = link;
      const facts = { device, container: owner?.containerId, missing };
      try {
        hostSides.complete(link);
        this.#restored += 1;
        log.warning('host side of a pod restored', facts);
      } catch (cause) {
        const problem = `${describeIncomplete(each)}: ${reasonOf(cause)}`;
        problems.push(problem);
        if (!this.#problems.includes(problem))
          log.error('host side of a pod not restored', { ...facts, reason: reasonOf(cause) });
      }
    }
    this.#problems = problems;
  }
}
