import { createHash } from 'node:crypto';
import { slices } from '../../base/slices.ts';
import type { FilterSet } from '../policy-filter.ts';
import { decodeElements } from './listed-elements.ts';
import { isMap } from './nft-elements.ts';
import type { ActualSet } from './plan-policy-batch.ts';

/** Of the header of a body, which counts the changes of all tables. */
const HEADER_BYTES = 4;
/** Bodies of a listing that are read before other work may run. */
const BODIES_AT_ONCE = 64;

interface Listing {
  readonly digest: string;
  /** A set that has what is listed. */
  readonly set: FilterSet;
}

/**
 * What the kernel lists of the sets of a table, compared with the desired sets. A listing that has not changed is recognized by
 * its bytes: large sets are listed every few seconds.
 */
export class KnownListings {
  #last: ReadonlyMap<string, Listing> = new Map();
  #next = new Map<string, Listing>();

  /** Returns the elements in the listing of the set of that name, and the desired set that has these. */
  async read(name: string, set: FilterSet, bodies: readonly Buffer[]): Promise<Pick<ActualSet, 'elements' | 'source'>> {
    if (isMap(set)) return { elements: await decodeElements(set, bodies) };
    const digest = await digestOf(bodies);
    const last = this.#last.get(name);
    const listing = last?.digest === digest ? last : await this.#compare(set, { digest, bodies });
    if (!('set' in listing)) return listing;
    this.#next.set(name, listing);
    return { elements: listing.set.elements, source: listing.set };
  }

  /** All sets of the table have been read. */
  complete(): void {
    this.#last = this.#next;
    this.#next = new Map();
  }

  async #compare(
    set: FilterSet,
    { digest, bodies }: { readonly digest: string; readonly bodies: readonly Buffer[] },
  ): Promise<Listing | Pick<ActualSet, 'elements'>> {
    const elements = await decodeElements(set, bodies);
    const isDesired =
      elements.size === set.elements.size && [...elements.keys()].every((text) => set.elements.has(text));
    return isDesired ? { digest, set } : { elements };
  }
}

async function digestOf(bodies: readonly Buffer[]): Promise<string> {
  const hash = createHash('sha256');
  for await (const some of slices(bodies, BODIES_AT_ONCE))
    for (const body of some) hash.update(body.subarray(HEADER_BYTES));
  return hash.digest('base64');
}
