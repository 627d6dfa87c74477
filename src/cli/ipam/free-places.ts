import type { Pool } from '../../ipam/choose-pools.ts';
import { cidrAtPlace, firstPlace, placeOf, placesIn } from '../../ipam/free-cidrs.ts';
import type { NodeName } from '../../model/names.ts';
import type { Cidr } from '../../net/cidr.ts';

/** The blocks of one pool that nobody has claimed; finds the planner's next one without passing those that are claimed. */
export class FreePlaces {
  readonly #pool: Pool;
  readonly #count: bigint;
  /** Where to look on from a place that is gone; the next place, or one far behind it. */
  readonly #onward = new Map<bigint, bigint>();

  constructor(pool: Pool) {
    this.#pool = pool;
    this.#count = placesIn(pool);
  }

  /** The first one for the node, wrapping around; undefined when there is none left. */
  find(node: NodeName): Cidr | undefined {
    const start = firstPlace(this.#pool, node);
    const behind = this.#from(start);
    const place = behind < this.#count ? behind : this.#from(0n);
    return place < this.#count ? cidrAtPlace(this.#pool, place) : undefined;
  }

  take(cidr: Cidr): void {
    const place = placeOf(this.#pool, cidr);
    if (place !== undefined && !this.#onward.has(place)) this.#onward.set(place, place + 1n);
  }

  /** The first free place from here to the end; what was passed on the way is passed at once next time. */
  #from(start: bigint): bigint {
    const passed: bigint[] = [];
    let place = start;
    for (let next = this.#onward.get(place); next !== undefined; next = this.#onward.get(place)) {
      passed.push(place);
      place = next;
    }
    for (const each of passed) this.#onward.set(each, place);
    return place;
  }
}
