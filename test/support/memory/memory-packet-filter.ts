import { NetplugError } from '../../../src/base/errors.ts';
import type { NftObject, NftTable, PacketFilter } from '../../../src/dataplane/packet-filter.ts';

/** The tables of one host, which outlive the filters that write them. */
export type MemoryTables = Map<string, readonly NftObject[]>;

/** A PacketFilter in memory, with fault injection. */
export class MemoryPacketFilter implements PacketFilter {
  readonly #tables: MemoryTables;
  /** What this filter wrote last, by table. */
  readonly #written = new Map<string, readonly NftObject[]>();
  #isFailing = false;

  constructor(tables: MemoryTables = new Map()) {
    this.#tables = tables;
  }

  /** Makes the next replacement that changes something fail. */
  failNext(): void {
    this.#isFailing = true;
  }

  async replace(table: NftTable, signal: AbortSignal): Promise<'unchanged' | 'changed'> {
    const { name, objects } = table;
    signal.throwIfAborted();
    if (this.#isInPlace(table)) return 'unchanged';
    if (this.#isFailing) {
      this.#isFailing = false;
      throw new NetplugError('kernel/failed', `Cannot replace the nftables table "${name}": a fault was injected`);
    }
    if (objects.length === 0) this.#tables.delete(name);
    else this.#tables.set(name, objects);
    this.#written.set(name, objects);
    return 'changed';
  }

  async has(name: string, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    return this.#tables.has(name);
  }

  #isInPlace({ name, objects, onlyIfExists = objects.length === 0 }: NftTable): boolean {
    const shown = this.#tables.get(name);
    if (shown === undefined) return onlyIfExists;
    const written = this.#written.get(name);
    return shown === written && JSON.stringify(written) === JSON.stringify(objects);
  }
}
