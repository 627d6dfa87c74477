import { type Address, FAMILIES, type Family } from '../../net/address.ts';
import type { FlowTable, TrackedFlow } from '../flow-table.ts';
import { loadAddon } from './addon.ts';
import { endFlow, flowReader, listFlows } from './flow-messages.ts';
import { NftSocket } from './nft-socket.ts';

/** How many flows are ended in one exchange. */
const AT_ONCE = 256;
/** Between two parts of a long list other work can run. */
const READ_AT_ONCE = 5000;

/** The tracked flows of the network namespace in which it was opened. */
export class LinuxFlowTable implements FlowTable, Disposable {
  readonly #socket: NftSocket;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(socket: NftSocket) {
    this.#socket = socket;
  }

  /** @throws kernel/failed */
  static open(addonPath?: string): LinuxFlowTable {
    return new LinuxFlowTable(NftSocket.open(loadAddon(addonPath)));
  }

  async list(addresses: readonly Address[] | 'all'): Promise<readonly TrackedFlow[]> {
    return this.#inTurn(async () => this.#list(addresses));
  }

  async end(flows: readonly TrackedFlow[]): Promise<number> {
    return this.#inTurn(async () => this.#end(flows));
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }

  /** A reply does not name its request across threads: one exchange at a time. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #list(addresses: readonly Address[] | 'all'): Promise<readonly TrackedFlow[]> {
    if (addresses.length === 0) return [];
    const read = flowReader(addresses);
    const found: TrackedFlow[] = [];
    const isWanted = (each: Family): boolean => addresses === 'all' || addresses.some(({ family }) => family === each);
    for (const family of FAMILIES.filter(isWanted)) {
      const bodies = await this.#socket.list('list tracked flows', listFlows(family));
      for (let at = 0; at < bodies.length; at += READ_AT_ONCE) {
        for (const body of bodies.slice(at, at + READ_AT_ONCE)) {
          const flow = read(body);
          if (flow !== undefined) found.push(flow);
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    return found;
  }

  async #end(flows: readonly TrackedFlow[]): Promise<number> {
    let ended = 0;
    for (let at = 0; at < flows.length; at += AT_ONCE) {
      const [first, ...rest] = flows.slice(at, at + AT_ONCE).map(endFlow);
      if (first !== undefined) ended += await this.#socket.requestEach('end a tracked flow', [first, ...rest]);
    }
    return ended;
  }
}
