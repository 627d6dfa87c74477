import { firstIndex } from '../../base/first-index.ts';
import type { Pool } from '../choose-pools.ts';
import { cidrAtPlace, firstPlace, placeOf, placesIn } from '../free-cidrs.ts';
import type { NodeName } from '../../model/names.ts';
import type { Cidr } from '../../net/cidr.ts';

/** Places that lie side by side, up to before `end`. */
interface Stretch {
  start: bigint;
  end: bigint;
}

/** The unclaimed blocks of a pool. Finds the next one in the planner's order without iterating over claimed blocks. */
export class FreePlaces {
  readonly #pool: Pool;
  readonly #count: bigint;
  /** The claimed stretches, in order, with free places between them. */
  readonly #claimed: Stretch[] = [];

  constructor(pool: Pool) {
    this.#pool = pool;
    this.#count = placesIn(pool);
  }

  /** Yields the places for the node in the planner's order, wrapping around; what is taken meanwhile is left out. */
  *inOrderOf(node: NodeName): Generator<Cidr> {
    for (const start of [firstPlace(this.#pool, node), 0n]) {
      for (let place = this.#freeFrom(start); place < this.#count; place = this.#freeFrom(place + 1n))
        yield cidrAtPlace(this.#pool, place);
    }
  }

  take(cidr: Cidr): void {
    const place = placeOf(this.#pool, cidr);
    if (place === undefined) return;
    const index = this.#firstThatEndsFrom(place);
    const [stretch, next] = [this.#claimed[index], this.#claimed[index + 1]];
    if (stretch === undefined || stretch.start > place + 1n) {
      this.#claimed.splice(index, 0, { start: place, end: place + 1n });
    } else if (stretch.start > place) {
      stretch.start = place;
    } else if (stretch.end === place) {
      stretch.end = next?.start === place + 1n ? next.end : place + 1n;
      if (stretch.end === next?.end) this.#claimed.splice(index + 1, 1);
    }
  }

  #freeFrom(start: bigint): bigint {
    const stretch = this.#claimed[this.#firstThatEndsFrom(start + 1n)];
    return stretch === undefined || stretch.start > start ? start : stretch.end;
  }

  /** The index of the first stretch that ends there or later. */
  #firstThatEndsFrom(place: bigint): number {
    return firstIndex(this.#claimed.length, (index) => (this.#claimed[index]?.end ?? place) < place);
  }
}
