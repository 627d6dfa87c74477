import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import type { HostEvent } from '../../../../dataplane/host-network.ts';
import { describeIncomplete, type HostSides } from '../../../../dataplane/kernel.ts';

/** Interval at which to compare the settings of links too, some of which the kernel does not report. */
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

  /** Reports whether the event requires a comparison; after lost events, and one about settings, it includes settings. */
  handleHostEvent({ kind }: HostEvent): boolean {
    const isOfSettings = kind === 'pod-settings' || kind === 'unknown';
    if (isOfSettings) this.#comparedAtMs = Number.NEGATIVE_INFINITY;
    return isOfSettings || kind === 'pod-links';
  }

  /** @throws kernel/failed */
  async reconcile(): Promise<void> {
    const { hostSides, clock, log } = this.#ports;
    const settings = clock.monotonic() - this.#comparedAtMs >= SETTINGS_MS;
    // An event during the comparison requires another one.
    if (settings) this.#comparedAtMs = clock.monotonic();
    const incomplete = await hostSides.listIncompleteLinks({ settings }).catch((cause: unknown) => {
      if (settings) this.#comparedAtMs = Number.NEGATIVE_INFINITY;
      throw cause;
    });
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
