import { isNetplugError } from '../../base/errors.ts';
import { slices, slicesOf } from '../../base/slices.ts';
import type { Address } from '../../net/address.ts';
import type { FlowTable, TrackedFlow } from '../flow-table.ts';
import { loadAddon } from './addon.ts';
import { endFlow, endFlowsOf, flowReader, listFlows } from './flow-messages.ts';
import { NftSocket } from './nft-socket.ts';

/** Number of flows that are ended in one exchange. */
const AT_ONCE = 256;
/** Between two parts of a long list other work can run. */
const READ_AT_ONCE = 5000;

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
    if (addresses.length === 0) return [];
    const read = flowReader(addresses);
    const found: TrackedFlow[] = [];
    const bodies = await this.#socket.list('list tracked flows', listFlows());
    for await (const slice of slices(bodies, READ_AT_ONCE))
      for (const body of slice) {
        const flow = read(body);
        if (flow !== undefined) found.push(flow);
      }
    return found;
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

type V4 = Address & { readonly family: 4 };

function isV4(address: Address): address is V4 {
  return address.family === 4;
}
