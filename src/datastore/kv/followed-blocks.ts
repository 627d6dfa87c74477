import type { NodeName } from '../../model/names.ts';
import { type Cidr, formatCidr } from '../../net/cidr.ts';
import { borrowersOf } from '../borrowers.ts';
import type { FollowedRecord } from '../follow.ts';
import { isPut } from './etcd-watch.ts';
import type { Event, KeyValue } from '../../../proto/gen/etcd.ts';
import type { FollowedRange } from './follow.ts';
import { cidrOfKey } from './keys.ts';
import { borrowedKeys } from './read-node.ts';
import { fetchBlocks, type EtcdReader, readBlockRecords } from './read-blocks.ts';
import { blockReader, versionOf } from './records.ts';
import { decodeText } from './requests.ts';
import { Unreadable } from '../unreadable.ts';

interface RemoteBlockWatch {
  readonly key: string;
  readonly watchId: bigint;
}

/** Means by which the blocks of a node are followed. */
interface BlockPorts {
  readonly node: NodeName;
  readonly query: number;
  /** Follows one more range from the revision after `after` on; returns what `leave` takes. */
  readonly follow: (range: FollowedRange, after: bigint) => bigint;
  readonly leave: (watchId: bigint) => void;
}

/**
 * The blocks of a node as they change. A block that is written in watched is known from its event. When a block moves or
 * the node begins to borrow from it, the events come one by one from several ranges, in any order: then the block is
 * read, and events up to the revision of that reading are dropped.
 */
export class FollowedBlocks {
  readonly #reader: EtcdReader;
  readonly #ports: BlockPorts;
  /** Up to which revision a block is known, by its CIDR. Stays after a deletion, against events that come late. */
  readonly #known = new Map<string, bigint>();
  /** Blocks under other owners, each followed by its key. */
  readonly #watches = new Map<string, RemoteBlockWatch>();

  constructor(reader: EtcdReader, ports: BlockPorts) {
    this.#reader = reader;
    this.#ports = ports;
  }

  /** The node's own blocks, and the index of those it borrows from. */
  ranges(): readonly FollowedRange[] {
    const { keys } = this.#reader;
    const { node } = this.#ports;
    return [
      {
        keys: keys.blocksOf(node),
        begin: async (kvs, revision) => Promise.resolve(this.#begin(kvs, { revision, isRemote: false })),
        take: async (events) => this.#take(events, async (event) => this.#written(event, { isRemote: false })),
      },
      {
        keys: keys.borrowedBy(node),
        begin: async (kvs, revision) => {
          const blocks = await fetchBlocks(this.#reader, { blocks: borrowedKeys(keys, kvs), revision });
          return this.#begin(blocks, { revision, isRemote: true });
        },
        // A deleted index key needs no action: the block's own event reports the change.
        take: async (events) => this.#take(events.filter(isPut), async (event) => this.#reread(event)),
      },
    ];
  }

  #begin(
    kvs: readonly KeyValue[],
    { revision, isRemote }: { readonly revision: bigint; readonly isRemote: boolean },
  ): readonly FollowedRecord[] {
    return kvs.flatMap((kv) => {
      const cidr = cidrOfKey(decodeText(kv.key));
      return cidr === undefined ? [] : [this.#record(cidr, { kv, revision, isRemote })];
    });
  }

  async #take(
    events: readonly Event[],
    recordOf: (event: Event) => Promise<FollowedRecord | undefined>,
  ): Promise<readonly FollowedRecord[]> {
    const records: FollowedRecord[] = [];
    for (const event of events) {
      const record = await recordOf(event);
      if (record !== undefined) records.push(record);
    }
    return records;
  }

  async #written(event: Event, { isRemote }: { readonly isRemote: boolean }): Promise<FollowedRecord | undefined> {
    const { kv } = event;
    const cidr = this.#cidrIfNewer(kv);
    if (kv === undefined || cidr === undefined || !isPut(event)) return this.#reread(event);
    return this.#record(cidr, { kv, revision: kv.modRevision, isRemote });
  }

  /** Reads the block where it is now. */
  async #reread({ kv: event }: Event): Promise<FollowedRecord | undefined> {
    const cidr = this.#cidrIfNewer(event);
    if (cidr === undefined) return undefined;
    const { kvs, revision } = await readBlockRecords(this.#reader, [cidr]);
    const [kv] = kvs;
    const own = this.#reader.keys.block(cidr, this.#ports.node);
    return this.#record(cidr, { kv, revision, isRemote: kv !== undefined && decodeText(kv.key) !== own });
  }

  /** Returns the CIDR unless a newer revision is already applied. */
  #cidrIfNewer(kv: KeyValue | undefined): Cidr | undefined {
    const cidr = kv === undefined ? undefined : cidrOfKey(decodeText(kv.key));
    if (kv === undefined || cidr === undefined) return undefined;
    return kv.modRevision <= (this.#known.get(formatCidr(cidr)) ?? 0n) ? undefined : cidr;
  }

  #record(
    cidr: Cidr,
    {
      kv,
      revision,
      isRemote,
    }: { readonly kv: KeyValue | undefined; readonly revision: bigint; readonly isRemote: boolean },
  ): FollowedRecord {
    const key = formatCidr(cidr);
    const base = {
      kind: 'block',
      query: this.#ports.query,
      key,
      version: kv === undefined ? '' : versionOf(kv),
    } as const;
    const read = kv === undefined ? undefined : blockReader(this.#reader.keys)(kv);
    const isUnreadable = read instanceof Unreadable;
    const { node } = this.#ports;
    const isOurs =
      read !== undefined && (isUnreadable || read.value.node === node || borrowersOf(read.value).has(node));
    this.#known.set(key, revision);
    this.#watchRemoteBlock(key, isRemote && isOurs && kv !== undefined ? decodeText(kv.key) : undefined, revision);
    if (!isOurs) return base;
    return isUnreadable ? { ...base, problem: read.problem } : { ...base, value: read.value };
  }

  #watchRemoteBlock(name: string, key: string | undefined, revision: bigint): void {
    const watched = this.#watches.get(name);
    if (watched?.key === key) return;
    if (watched !== undefined) this.#ports.leave(watched.watchId);
    if (key === undefined) this.#watches.delete(name);
    else this.#watches.set(name, { key, watchId: this.#ports.follow(this.#rangeOf(key), revision) });
  }

  #rangeOf(keys: string): FollowedRange {
    return {
      keys,
      begin: async () => Promise.resolve([]),
      take: async (events) => this.#take(events, async (event) => this.#written(event, { isRemote: true })),
    };
  }
}
