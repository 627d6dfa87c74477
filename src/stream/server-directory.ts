import type { Clock } from '../base/clock.ts';
import { reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { preferredServers, type ServerNow } from './choose-server.ts';
import type { ServerEntry } from './handshake.ts';
import { currentServers, type LeasedServer } from './server-lease.ts';

/** Leases are read no more often than that. */
const LIST_MS = 5000;
/** Time of one read. */
const READ_MS = 5000;

export interface ServerDirectoryPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  /** Reads the Leases of the servers. */
  readonly list: (signal: AbortSignal) => Promise<readonly LeasedServer[]>;
  /** Called when the servers have changed. */
  readonly onChange: () => void;
}

/** The servers that a client knows: from Leases at first and when none answers, from its server after that. */
export class ServerDirectory {
  readonly #ports: ServerDirectoryPorts;
  #servers: ReadonlyMap<string, ServerEntry> = new Map();
  #listedMs = Number.NEGATIVE_INFINITY;
  #isListing = false;

  constructor(ports: ServerDirectoryPorts) {
    this.#ports = ports;
  }

  find(name: string): ServerEntry | undefined {
    return this.#servers.get(name);
  }

  /** Returns the names of the servers, those first that the node prefers to the one that it has. */
  order(now?: ServerNow): readonly string[] {
    return preferredServers(this.#ports.node, [...this.#servers.values()], now).map(({ name }) => name);
  }

  /** Takes the servers that a server knows. */
  learn(servers: readonly ServerEntry[]): void {
    if (servers.length === 0) return;
    this.#servers = new Map(servers.map((server) => [server.name, server]));
    this.#ports.onChange();
  }

  /** Reads the Leases, unless that was done a moment ago. */
  refresh(): void {
    const { clock } = this.#ports;
    if (this.#isListing || clock.monotonic() - this.#listedMs < LIST_MS) return;
    this.#isListing = true;
    void this.#list();
  }

  async #list(): Promise<void> {
    const { clock, list, log } = this.#ports;
    try {
      this.learn(currentServers(await list(AbortSignal.timeout(READ_MS))));
    } catch (cause) {
      log.warning('servers not listed', { cause: reasonOf(cause) });
    }
    this.#isListing = false;
    this.#listedMs = clock.monotonic();
  }
}
