import * as v from 'valibot';
import { tryParseJson } from '../base/try-parse-json.ts';
import type { ApiObject } from '../kube/objects.ts';
import { isRecord } from '../model/read-schema.ts';
import { readServerEntry, type ServerEntry } from './handshake.ts';

/** The label of Leases of servers; its value is the program. */
export const SERVER_LABEL = 'netplug.io/server';
const ANNOTATION = 'netplug.io/server';
const DURATION_S = 30;

const writers = v.array(v.looseObject({ time: v.optional(v.string(), '') }));

/** A server as its Lease shows it. */
export interface LeasedServer {
  readonly entry: ServerEntry;
  readonly release: string;
  readonly clients: number;
  /** The oldest release of a client; undefined without clients. */
  readonly oldestClient: string | undefined;
  /**
   * When the server renewed the Lease, in milliseconds since the epoch: by its clock where it writes, by that of the API server
   * where it is read, as the clocks of servers differ.
   */
  readonly renewedMs: number;
}

export interface LeaseOwner {
  readonly pod: string;
  readonly uid: string;
}

/** Returns the name of the Lease of a server. */
export function serverLeaseName(program: string, server: string): string {
  return `${program}-${server}`;
}

/** Returns the Lease of a server. It ends with the pod that owns it. */
export function serverLease(
  {
    program,
    namespace,
    owner,
  }: { readonly program: string; readonly namespace: string; readonly owner: LeaseOwner | undefined },
  { entry, release, clients, oldestClient, renewedMs }: LeasedServer,
): object {
  const owners = owner === undefined ? [] : [{ apiVersion: 'v1', kind: 'Pod', name: owner.pod, uid: owner.uid }];
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      name: serverLeaseName(program, entry.name),
      namespace,
      labels: { [SERVER_LABEL]: program },
      annotations: { [ANNOTATION]: JSON.stringify({ ...entry, release, clients, oldestClient }) },
      ownerReferences: owners,
    },
    spec: {
      holderIdentity: entry.name,
      leaseDurationSeconds: DURATION_S,
      // Microseconds, as Leases have them.
      renewTime: new Date(renewedMs).toISOString().replace('Z', '000Z'),
    },
  };
}

/** Returns the server that a Lease describes; undefined for another Lease. */
export function readServerLease(lease: ApiObject): LeasedServer | undefined {
  const raw = tryParseJson(lease.metadata.annotations?.[ANNOTATION] ?? '');
  const entry = readServerEntry(raw);
  if (entry === undefined || !isRecord(raw)) return undefined;
  const spec = lease['spec'];
  const renewed = isRecord(spec) && typeof spec['renewTime'] === 'string' ? Date.parse(spec['renewTime']) : Number.NaN;
  const { release, clients, oldestClient } = raw;
  return {
    entry,
    release: typeof release === 'string' ? release : '',
    clients: typeof clients === 'number' ? clients : 0,
    oldestClient: typeof oldestClient === 'string' ? oldestClient : undefined,
    renewedMs: writtenMs(lease) ?? (Number.isNaN(renewed) ? 0 : renewed),
  };
}

/** Returns when the object was last written, as the API server notes for each writer; undefined when it does not say. */
function writtenMs({ metadata }: ApiObject): number | undefined {
  const read = v.safeParse(writers, metadata['managedFields']);
  const times = read.success ? read.output.map(({ time }) => Date.parse(time)) : [];
  const known = times.filter((time) => !Number.isNaN(time));
  return known.length === 0 ? undefined : Math.max(...known);
}

/**
 * Returns the servers that renew their Leases. The times are compared with each other: the clock of the reader may be wrong.
 * Without a current one, all are returned: it is not the servers that are late then, but what is read.
 */
export function currentServers(leased: readonly LeasedServer[]): readonly ServerEntry[] {
  return leased.filter((server) => isCurrentServer(server, leased)).map(({ entry }) => entry);
}

/** Reports whether the server renews its Lease as the others do. */
export function isCurrentServer({ renewedMs }: LeasedServer, all: readonly LeasedServer[]): boolean {
  return Math.max(...all.map((server) => server.renewedMs)) - renewedMs <= DURATION_S * 1000;
}
