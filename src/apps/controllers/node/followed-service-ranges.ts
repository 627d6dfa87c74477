import { isDeepStrictEqual } from 'node:util';
import { keepRunning } from '../../../base/back-off.ts';
import { reasonOf } from '../../../base/errors.ts';
import { compareText } from '../../../datastore/order.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { readServiceRanges, SERVICE_CIDRS, serviceRangesIn } from '../../../kube/service-ranges.ts';
import { watchIfServed } from '../../../kube/watch-if-served.ts';
import type { ControllerPorts } from '../controller.ts';

/** The ranges of Services, by a watch of all ServiceCIDRs. */
export class FollowedServiceRanges {
  readonly #ports: Pick<ControllerPorts, 'api' | 'log' | 'clock' | 'random'>;
  /** Ranges by the name of their ServiceCIDR; undefined while the watch does not tell them. */
  #known: ReadonlyMap<string, readonly string[]> | undefined;

  constructor(ports: Pick<ControllerPorts, 'api' | 'log' | 'clock' | 'random'>) {
    this.#ports = ports;
  }

  /** Returns the ranges as the watch has them, in a fixed order; reads them while it has none. @throws store/* */
  async current(signal: AbortSignal): Promise<readonly string[]> {
    if (this.#known === undefined) return readServiceRanges(this.#ports.api, signal);
    return [...this.#known.values()].flat().toSorted(compareText);
  }

  /** Calls `onChange` when the ranges differ from before, until the signal aborts. */
  async follow(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { api, clock, log } = this.#ports;
    const take = (known: ReadonlyMap<string, readonly string[]>): void => {
      const isSame = isDeepStrictEqual(known, this.#known);
      this.#known = known;
      if (!isSame) onChange();
    };
    const watch = async (): Promise<void> => {
      for await (const event of api.sharedWatch(SERVICE_CIDRS, {}, signal)) {
        if (event.kind === 'all') take(rangesByName(event.objects));
        else if (event.changes.length > 0) {
          const known = new Map(this.#known);
          for (const { before, after } of event.changes)
            if (after !== undefined) known.set(after.metadata.name, serviceRangesIn(after));
            else if (before !== undefined) known.delete(before.metadata.name);
          take(known);
        }
      }
    };
    const work = async (): Promise<void> => watchIfServed(clock, { watch, onUnserved: () => take(new Map()) }, signal);
    const onFailure = (cause: unknown, failures: number): void => {
      this.#known = undefined;
      if (failures === 1) log.warning('watch failed', { kind: SERVICE_CIDRS.plural, reason: reasonOf(cause) });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }
}

function rangesByName(objects: readonly ApiObject[]): ReadonlyMap<string, readonly string[]> {
  return new Map(objects.map((object) => [object.metadata.name, serviceRangesIn(object)]));
}
