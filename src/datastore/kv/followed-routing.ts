import type { NodeName } from '../../model/names.ts';
import { formatCidr, parseCidr } from '../../net/cidr.ts';
import { addressesOf } from '../borrowers.ts';
import type { FollowedRecord } from '../follow.ts';
import { type BorrowedRecord, decodeBorrowed } from './borrowed-records.ts';
import { isPut } from './etcd-watch.ts';
import type { Event, KeyValue } from '../../../proto/gen/etcd.ts';
import { cidrOfKey, type Keys } from './keys.ts';
import { readClaim, unreadableRecord } from './records.ts';
import { decodeText } from './requests.ts';
import { Unreadable } from '../unreadable.ts';

/** Contents of the claims and borrowed keys of one block. */
interface Routing {
  claim: { readonly node: NodeName | undefined } | undefined;
  readonly borrowed: Map<NodeName, BorrowedRecord>;
  /** With borrowed keys, by their nodes. */
  readonly problems: Map<NodeName, string>;
}

/** Claims and borrowed keys as they change, put together to blocks. */
export class FollowedRouting {
  readonly #keys: Keys;
  readonly #query: number;
  readonly #known = new Map<string, Routing>();

  constructor(keys: Keys, query: number) {
    this.#keys = keys;
    this.#query = query;
  }

  begin(kvs: readonly KeyValue[]): readonly FollowedRecord[] {
    return this.#records(kvs.map((kv) => this.#note(kv, { isThere: true })));
  }

  /** Takes whole transactions, so no intermediate state is reported. */
  take(events: readonly Event[]): readonly FollowedRecord[] {
    return this.#records(events.map((event) => event.kv && this.#note(event.kv, { isThere: isPut(event) })));
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
    else if (isThere) routing.problems.set(borrower, unreadableRecord(key, 'it names no ordinals').problem);
    return name;
  }

  #records(names: readonly (string | undefined)[]): readonly FollowedRecord[] {
    return [...new Set(names)].flatMap((name) => (name === undefined ? [] : this.#record(name)));
  }

  #record(key: string): readonly FollowedRecord[] {
    const routing = this.#known.get(key);
    if (routing === undefined) return [];
    const { claim, borrowed, problems } = routing;
    if (claim === undefined && borrowed.size === 0 && problems.size === 0) this.#known.delete(key);
    const cidr = parseCidr(key);
    const ordinals = new Map([...borrowed].map(([node, record]) => [node, record.ordinals]));
    return [
      {
        kind: 'route',
        query: this.#query,
        key,
        // Several keys make the record.
        version: '',
        value: claim === undefined ? undefined : { cidr, node: claim.node, borrowed: addressesOf(cidr, ordinals) },
        problem: problems.size === 0 ? undefined : [...problems.values()].join('; '),
      },
    ];
  }
}
