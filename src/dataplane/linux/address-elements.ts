/** Elements of sets whose keys are addresses, written in place: large sets have hundreds of thousands. Pure. */
import { bitsOf, type Family } from '../../net/address.ts';
import { NLA_F_NESTED } from './netlink.ts';
import { NFT_SET_ELEM_INTERVAL_END, NFTA_DATA, NFTA_LIST_ELEM, NFTA_SET_ELEM } from './nft-numbers.ts';

const HEADER_BYTES = 4;
const FLAGS_BYTES = 8;

/** Writes elements of one family, each an address or the end of a range. */
export class AddressElements {
  readonly #keyBytes: number;
  readonly #bytes: Buffer;
  readonly #view: DataView;
  #at = 0;

  /** `most` elements have room. */
  constructor(family: Family, most: number) {
    this.#keyBytes = bitsOf(family) / 8;
    this.#bytes = Buffer.allocUnsafe(most * (3 * HEADER_BYTES + this.#keyBytes + FLAGS_BYTES));
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
  }

  add(value: bigint, isEnd: boolean): void {
    const keyBytes = this.#keyBytes;
    this.#header(NFTA_LIST_ELEM | NLA_F_NESTED, 2 * HEADER_BYTES + keyBytes + (isEnd ? FLAGS_BYTES : 0));
    this.#header(NFTA_SET_ELEM.KEY | NLA_F_NESTED, HEADER_BYTES + keyBytes);
    this.#header(NFTA_DATA.VALUE, keyBytes);
    if (keyBytes === 16) {
      this.#view.setBigUint64(this.#at, value >> 64n);
      this.#view.setBigUint64(this.#at + 8, value);
    } else this.#view.setUint32(this.#at, Number(value));
    this.#at += keyBytes;
    if (!isEnd) return;
    this.#header(NFTA_SET_ELEM.FLAGS, FLAGS_BYTES - HEADER_BYTES);
    this.#view.setUint32(this.#at, NFT_SET_ELEM_INTERVAL_END);
    this.#at += FLAGS_BYTES - HEADER_BYTES;
  }

  /** Returns what has been written. */
  get written(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  #header(type: number, payloadBytes: number): void {
    this.#view.setUint16(this.#at, HEADER_BYTES + payloadBytes, true);
    this.#view.setUint16(this.#at + 2, type, true);
    this.#at += HEADER_BYTES;
  }
}
