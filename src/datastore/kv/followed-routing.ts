import type { Pieces } from '../../base/pieces.ts';
import type { NodeName } from '../../model/names.ts';
import { formatCidr, parseCidr } from '../../net/cidr.ts';
import { addressesOf } from '../borrowers.ts';
import type { ClusterFeed } from '../cluster-feed.ts';
import type { ClusterChange } from '../watch-store.ts';
import { type BorrowedRecord, decodeBorrowed } from './borrowed-records.ts';
import { isPut } from './etcd-watch.ts';
import type { Event, KeyValue } from '../../../proto/gen/etcd_pb.js';
import { cidrOfKey, type Keys } from './keys.ts';
import { readClaim, Unreadable } from './records.ts';
import { decodeText } from './requests.ts';

/** What claims and borrowed keys say of one block. */
interface Routing {
  claim: { readonly node: NodeName | undefined } | undefined;
  readonly borrowed: Map<NodeName, BorrowedRecord>;
  /** With borrowed keys, by their nodes. */
  readonly problems: Map<NodeName, string>;
}

/** Claims and borrowed keys as they change, put together to blocks. */
export class FollowedRouting {
  readonly #keys: Keys;
  readonly #feed: ClusterFeed;
  readonly #known = new Map<string, Routing>();

  constructor(keys: Keys, feed: ClusterFeed) {
    this.#keys = keys;
    this.#feed = feed;
  }

  *begin(kvs: readonly KeyValue[]): Pieces<void> {
    const names = new Set<string>();
    for (const kv of kvs) {
      yield;
      const name = this.#note(kv, { isThere: true });
      if (name !== undefined) names.add(name);
    }
    yield* this.#tell(names);
  }

  /** The events of whole transactions, so that no block is told as it never was. */
  *changes(events: readonly Event[]): Pieces<readonly ClusterChange[]> {
    const names = new Set<string>();
    for (const event of events) {
      yield;
      const name = event.kv === undefined ? undefined : this.#note(event.kv, { isThere: isPut(event) });
      if (name !== undefined) names.add(name);
    }
    return yield* this.#tell(names);
  }

  /** Returns the CIDR of the block that the key is about. */
  #note(kv: KeyValue, { isThere }: { readonly isThere: boolean }): string | undefined {
    const key = decodeText(kv.key);
    const cidr = cidrOfKey(key);
    if (cidr === undefined) return undefined;
    const name = formatCidr(cidr);
    const routing = this.#known.get(name) ?? { claim: undefined, borrowed: new Map(), problems: new Map() };
    this.#known.set(name, routing);
    const borrower = this.#keys.borrowerIn(key);
    if (borrower === undefined) {
      const claim = readClaim(kv);
      routing.claim = isThere && !(claim instanceof Unreadable) ? claim : undefined;
      return name;
    }
    const record = isThere ? decodeBorrowed(decodeText(kv.value)) : undefined;
    routing.borrowed.delete(borrower);
    routing.problems.delete(borrower);
    if (record !== undefined) routing.borrowed.set(borrower, record);
    else if (isThere) routing.problems.set(borrower, new Unreadable(key, 'it names no ordinals').problem);
    return name;
  }

  *#tell(names: ReadonlySet<string>): Pieces<readonly ClusterChange[]> {
    const changes: ClusterChange[] = [];
    for (const name of names) {
      yield;
      changes.push(...this.#tellOne(name));
    }
    return changes;
  }

  #tellOne(name: string): readonly ClusterChange[] {
    const routing = this.#known.get(name);
    if (routing === undefined) return [];
    const { claim, borrowed, problems } = routing;
    if (claim === undefined && borrowed.size === 0 && problems.size === 0) this.#known.delete(name);
    const cidr = parseCidr(name);
    const problem = problems.size === 0 ? undefined : [...problems.values()].join('; ');
    const ordinals = new Map([...borrowed].map(([node, record]) => [node, record.ordinals]));
    const value = claim === undefined ? undefined : { cidr, node: claim.node, borrowed: addressesOf(cidr, ordinals) };
    return this.#feed.block(cidr, { value, problem });
  }
}
