import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { protocolNumber } from '../../../../model/protocol.ts';
import type { ServicePort } from '../../../../model/service-endpoints.ts';
import { formatAddress, tryParseAddress } from '../../../../net/address.ts';

const RESOLVE_MS = 10_000;
/** A name may resolve to other addresses each time, and connections to the earlier ones stay open. */
const KEEP_MS = 3_600_000;

interface ServerPorts {
  readonly clock: Clock;
  readonly log: Log;
  /** @throws store/config-invalid, store/unavailable */
  readonly find: (signal: AbortSignal) => Promise<readonly ServicePort[]>;
  /** The servers that an earlier process saved. */
  readonly load: () => string;
  readonly save: (text: string) => Promise<void>;
  /** Called when there are other servers. */
  readonly onChange: () => void;
}

/**
 * The servers of the node's datastore, which no host endpoint may close and no route may lead over. They are saved over restarts: DNS may be unreachable while
 * host endpoints close the node.
 */
export class DatastoreServers {
  readonly #ports: ServerPorts;
  /** When they were found last, by address and port. */
  readonly #foundMs = new Map<string, number>();
  #current: readonly ServicePort[] = [];
  #problem: string | undefined;
  readonly #found = Promise.withResolvers<void>();

  constructor(ports: ServerPorts) {
    this.#ports = ports;
    const now = ports.clock.monotonic();
    for (const line of ports.load().split('\n')) if (serverIn(line) !== undefined) this.#foundMs.set(line, now);
    this.#current = this.#listed();
    if (this.#current.length > 0) this.#found.resolve();
  }

  /** Resolves when servers are known, or could not be found. */
  get found(): Promise<void> {
    return this.#found.promise;
  }

  get current(): readonly ServicePort[] {
    return this.#current;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#ports;
    while (!signal.aborted) {
      await this.#resolve(signal);
      await clock.sleep(RESOLVE_MS, signal).catch(() => undefined);
    }
  }

  async #resolve(signal: AbortSignal): Promise<void> {
    const { clock, log, find, save, onChange } = this.#ports;
    try {
      const found = await find(signal);
      const now = clock.monotonic();
      for (const { address, port } of found) this.#foundMs.set(`${formatAddress(address)} ${String(port)}`, now);
      for (const [line, foundMs] of this.#foundMs) if (now - foundMs > KEEP_MS) this.#foundMs.delete(line);
      const before = textOf(this.#current);
      this.#current = this.#listed();
      const text = textOf(this.#current);
      if (text !== before) {
        onChange();
        await save(text);
      }
      this.#problem = undefined;
    } catch (cause) {
      if (signal.aborted) return;
      if (this.#problem !== reasonOf(cause))
        log.warning('servers of the datastore not found, keeping those known', { reason: reasonOf(cause) });
      this.#problem = reasonOf(cause);
    } finally {
      this.#found.resolve();
    }
  }

  #listed(): readonly ServicePort[] {
    return [...this.#foundMs.keys()]
      .toSorted()
      .map(serverIn)
      .filter((server) => server !== undefined);
  }
}

function textOf(servers: readonly ServicePort[]): string {
  return servers.map(({ address, port }) => `${formatAddress(address)} ${String(port)}\n`).join('');
}

/** Returns the server of a line; undefined for any other text. */
function serverIn(line: string): ServicePort | undefined {
  const [text = '', port = ''] = line.split(' ');
  const address = tryParseAddress(text);
  if (address === undefined || !/^\d{1,5}$/.test(port)) return undefined;
  return { address, protocol: protocolNumber('TCP'), port: Number(port) };
}
