import { NetplugError, reasonOf } from '../base/errors.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { OrchApi } from '../kube/orch-api.ts';
import { LEASES } from '../kube/paths.ts';
import {
  type LeasedServer,
  type LeaseOwner,
  readServerLease,
  SERVER_LABEL,
  serverLease,
  serverLeaseName,
} from './server-lease.ts';

/** The Leases of the servers of a program. */
export interface ServerLeases {
  readonly list: (signal: AbortSignal) => Promise<readonly LeasedServer[]>;
  readonly write: (server: LeasedServer, signal: AbortSignal) => Promise<void>;
  readonly remove: (name: string, signal: AbortSignal) => Promise<void>;
}

export interface ServerLeasesOptions {
  readonly program: string;
  readonly namespace: string;
  /** The pod of the server that writes; undefined for readers. */
  readonly owner?: LeaseOwner;
}

/** Returns the Leases in the API. Every method throws store/unavailable and store/refused. */
export function leasesInApi(api: OrchApi, { program, namespace, owner }: ServerLeasesOptions): ServerLeases {
  const collection = { ...LEASES, namespace };
  return {
    list: async (signal) => {
      // The watch cache is good enough, and costs etcd nothing.
      const found = await api.list(collection, { labelSelector: `${SERVER_LABEL}=${program}`, isCached: true }, signal);
      return found.flatMap((lease) => readServerLease(lease) ?? []);
    },
    write: async (server, signal) => {
      const body = serverLease({ program, namespace, owner }, server);
      const name = serverLeaseName(program, server.entry.name);
      const answer = await api.patch(
        { collection, name },
        { kind: 'apply', body, manager: program, force: true },
        signal,
      );
      if (answer.outcome === 'ok') return;
      throw new NetplugError('store/unavailable', `Cannot write the Lease "${name}": ${answer.message}`);
    },
    remove: async (name, signal) => {
      await api.delete({ collection, name: serverLeaseName(program, name), preconditions: {} }, signal);
    },
  };
}

/** How often a server renews its Lease, and reads those of the others. */
const RENEW_MS = 10_000;
/** How often a server that is not current looks whether it is: one that starts is to be found at once. */
const WAIT_MS = 500;

export interface LeaseRenewalPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly leases: ServerLeases;
  /** Returns what the Lease says now; undefined while the server is not current: then it is not renewed. */
  readonly describe: () => LeasedServer | undefined;
  /** Receives the servers whenever they were read. */
  readonly onServers: (servers: readonly LeasedServer[]) => void;
}

/** Renews the Lease of a server, and knows the other servers. A server that is cut off from the API cannot renew. */
export class LeaseRenewal {
  readonly #ports: LeaseRenewalPorts;

  /** Whether the Lease has been written: clients can find the server. */
  isKnown = false;

  constructor(ports: LeaseRenewalPorts) {
    this.#ports = ports;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const isCurrent = this.#ports.describe() !== undefined;
      if (isCurrent) await this.renew(signal);
      await this.#ports.clock.sleep(isCurrent ? RENEW_MS : WAIT_MS, signal).catch(() => undefined);
    }
  }

  /** Writes the Lease if the server is current, and reads those of all. */
  async renew(signal: AbortSignal): Promise<void> {
    const { leases, describe, onServers, log } = this.#ports;
    try {
      const described = describe();
      if (described !== undefined) {
        await leases.write(described, signal);
        this.isKnown = true;
      }
      onServers(await leases.list(signal));
    } catch (cause) {
      if (!signal.aborted) log.warning('lease not renewed', { cause: reasonOf(cause) });
    }
  }
}
