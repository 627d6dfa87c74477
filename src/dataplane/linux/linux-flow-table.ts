import { isNetplugError } from '../../base/errors.ts';
import { slices, slicesOf } from '../../base/slices.ts';
import { type Address, FAMILIES, sameAddress } from '../../net/address.ts';
import type { FlowEnd, FlowTable, TrackedFlow } from '../flow-table.ts';
import { loadAddon } from './addon.ts';
import { endFlow, endFlowsOf, flowReader, listFlows, listFlowsAt, type V4 } from './flow-messages.ts';
import type { Message } from './netlink.ts';
import { NftSocket } from './nft-socket.ts';

/** Number of flows that are ended in one exchange. */
const AT_ONCE = 256;
/** Between two parts of a long list other work can run. */
const READ_AT_ONCE = 5000;
/** For more ends of IPv4 one list of all its flows costs less: the kernel walks its table for each end. */
const MOST_ENDS = 32;

/** The tracked flows of the network namespace in which it was opened. */
export class LinuxFlowTable implements FlowTable, Disposable {
  readonly #socket: NftSocket;
  /** Whether the kernel ends flows by address, which older ones do not. */
  #endsByAddress: boolean;

  private constructor(socket: NftSocket, endsByAddress: boolean) {
    this.#socket = socket;
    this.#endsByAddress = endsByAddress;
  }

  /** With `endsByAddress` false it works as on an older kernel. @throws kernel/failed */
  static open({ endsByAddress = true }: { readonly endsByAddress?: boolean } = {}): LinuxFlowTable {
    return new LinuxFlowTable(NftSocket.open(loadAddon()), endsByAddress);
  }

  async list(addresses: readonly Address[] | 'all'): Promise<readonly TrackedFlow[]> {
    return addresses.length === 0 ? [] : this.#read(listFlows(), flowReader(addresses));
  }

  async find(
    ends: readonly FlowEnd[] | 'all',
    isWanted: (flow: TrackedFlow) => boolean,
  ): Promise<readonly TrackedFlow[]> {
    const read = flowReader(ends === 'all' ? 'all' : ends.map(({ address }) => address));
    const readWanted = (body: Buffer): TrackedFlow | undefined => {
      const flow = read(body);
      return flow !== undefined && (ends === 'all' || hasOneOf(flow, ends)) && isWanted(flow) ? flow : undefined;
    };
    const found = new Map<string, TrackedFlow>();
    for (const message of ends === 'all' ? [listFlows()] : listsOf(ends))
      for (const flow of await this.#read(message, readWanted))
        found.set(Buffer.from(flow.handle).toString('latin1'), flow);
    return [...found.values()];
  }

  async end(flows: readonly TrackedFlow[]): Promise<number> {
    let ended = 0;
    for (const some of slicesOf(flows, AT_ONCE))
      ended += await this.#socket.requestEach('end a tracked flow', some.map(endFlow));
    return ended;
  }

  async endAll(addresses: readonly Address[]): Promise<void> {
    const v4 = addresses.filter(isV4);
    const left = (await this.#endByAddress(v4)) ? addresses.filter((address) => !isV4(address)) : addresses;
    await this.end(await this.list(left));
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }

  async #read(message: Message, read: (body: Buffer) => TrackedFlow | undefined): Promise<readonly TrackedFlow[]> {
    const found: TrackedFlow[] = [];
    const bodies = await this.#socket.list('list tracked flows', message);
    for await (const slice of slices(bodies, READ_AT_ONCE))
      for (const body of slice) {
        const flow = read(body);
        if (flow !== undefined) found.push(flow);
      }
    return found;
  }

  /**
   * Reports whether the kernel could. For a list it locks each bucket of its table, of which a host may have 262 144; to end
   * flows, only those that have some.
   */
  async #endByAddress(addresses: readonly V4[]): Promise<boolean> {
    if (addresses.length === 0) return true;
    if (!this.#endsByAddress) return false;
    try {
      await this.#socket.requestEach('end the tracked flows of an address', addresses.flatMap(endFlowsOf));
      return true;
    } catch (cause) {
      if (!isNetplugError(cause, 'kernel/failed') || cause.facts['errno'] !== 'EINVAL') throw cause;
      this.#endsByAddress = false;
      return false;
    }
  }
}

/** Returns the lists that have every flow with one of the ends, and as few others as the kernel can leave out. */
function listsOf(ends: readonly FlowEnd[]): readonly Message[] {
  const v4 = ends.filter(isOfV4);
  if (v4.length <= MOST_ENDS) return [...v4.map(listFlowsAt), ...(v4.length === ends.length ? [] : [listFlows(6)])];
  return FAMILIES.filter((family) => ends.some(({ address }) => address.family === family)).map(listFlows);
}

function hasOneOf(flow: TrackedFlow, ends: readonly FlowEnd[]): boolean {
  return ends.some(({ direction, side, address }) => sameAddress(flow[direction][side], address));
}

function isOfV4(end: FlowEnd): end is FlowEnd & { readonly address: V4 } {
  return isV4(end.address);
}

function isV4(address: Address): address is V4 {
  return address.family === 4;
}
