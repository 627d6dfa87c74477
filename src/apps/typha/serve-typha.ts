import * as v from 'valibot';
import type { RetryPorts } from '../../base/back-off.ts';
import { type repeat, timeLimit } from '../../base/clock.ts';
import { ERRORS } from '../../base/error-codes.ts';
import { isNewerRelease } from '../../base/compare-versions.ts';
import { freePagesOf } from '../../base/free-pages.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { FollowStore, Query } from '../../datastore/follow.ts';
import { CLIENT_BYTES, FOLLOW_FORMATS, FOLLOW_PROTOCOL } from '../../datastore/typha/follow-frames.ts';
import { FANNED_OUT, type FollowTopic, queryOfTopic } from '../../datastore/typha/topics.ts';
import type { AdmittedClient } from '../../stream/admit-client.ts';
import type { OwnCertificate } from '../../stream/own-certificate.ts';
import type { PendingLimits } from '../../stream/connection-limits.ts';
import type { ServerEntry } from '../../stream/handshake.ts';
import { currentServers, type LeasedServer } from '../../stream/server-lease.ts';
import { LeaseRenewal, type ServerLeases } from '../../stream/server-leases.ts';
import { type IdentityOptions, TokenIdentity } from '../../stream/token-identity.ts';
import { startTlsServer, type TlsServer } from '../../stream/tls-server.ts';
import { FollowService } from './follow-service.ts';
import type { ServedTopic } from './served-topic.ts';
import { emptySource } from './empty-source.ts';

export interface TyphaOptions {
  /** The name by which clients know the server: that of its pod. */
  readonly name: string;
  readonly release: string;
  readonly listen: { readonly host: string; readonly port: number };
  /** The addresses of the host, by which clients reach the server. */
  readonly addresses: readonly string[];
  /** Servers that are started together have the same. */
  readonly generation?: string;
  readonly own: OwnCertificate;
  readonly maxClients: number;
  /** Whether routes follow from the pod CIDRs of nodes: USE_POD_CIDR. Then blocks are neither listed nor watched. */
  readonly usesPodCidrs: boolean;
  /** What is served; all that agents ask for unless given. */
  readonly topics?: readonly FollowTopic[];
  readonly identity: Omit<IdentityOptions, 'clock'>;
  readonly pending?: PendingLimits;
}

export interface TyphaPorts extends RetryPorts {
  readonly store: FollowStore;
  /** Returns up to which version of the source an event has everything; undefined where versions cannot be compared. */
  readonly versionOf: (version: string) => number | undefined;
  readonly log: Log;
  readonly repeat: typeof repeat;
  /** Where clients find the servers; undefined where they are configured. */
  readonly leases?: ServerLeases;
}

/** What agents say of themselves. */
const about = v.looseObject({ usesPodCidrs: v.optional(v.boolean(), false) });

/** A server that is listening. Disposing ends all connections. */
export interface RunningTypha extends AsyncDisposable {
  readonly service: FollowService;
  readonly listener: TlsServer;
  readonly identity: TokenIdentity;
  readonly entry: () => ServerEntry;
  /** Whether agents can find the server: its Lease has been written, where there is one. */
  readonly isKnown: () => boolean;
  /** Says that it is leaving, accepts no further client, and asks every client to move within the time. */
  leave(withinMs: number): Promise<void>;
}

/** Share of its time in which a server that is leaving asks its clients to move: the rest is for those that are late. */
const LEAVE_SHARE = 0.8;
const LAST_LEASE_MS = 3000;
/** Interval at which free memory is looked for: the first is what reading the cluster took. */
const PAGES_MS = 5000;

/** Serves followed records to agents until it is disposed of. @throws store/config-invalid when it cannot listen */
export async function serveTypha(options: TyphaOptions, ports: TyphaPorts): Promise<RunningTypha> {
  const { name, release, listen, own, maxClients, usesPodCidrs, topics = FANNED_OUT, pending } = options;
  const { clock, log } = ports;
  const identity = new TokenIdentity({ ...options.identity, clock });
  const service = new FollowService({
    ports: {
      ...ports,
      onNodeGone: (node) => identity.forget(node),
      store: usesPodCidrs ? emptySource(ports.store, isBlockRoutes) : ports.store,
    },
    topics: new Map(topics.flatMap((topic) => entryOf(topic))),
    maxClients,
  });
  const listener = await startTlsServer({
    ...listen,
    own,
    log,
    protocol: FOLLOW_PROTOCOL,
    ...(pending === undefined ? {} : { limits: pending }),
    admission: {
      clock,
      server: name,
      release,
      formats: FOLLOW_FORMATS,
      identify: async (token, signal) => identity.nodeOf(token, signal),
      limitBytes: CLIENT_BYTES,
      admit: (client, peer) => {
        refuseMismatch(client, usesPodCidrs);
        return service.admit(client, peer);
      },
    },
  });
  const over = new AbortController();
  const pages = freePagesOf(() => clock.monotonic());
  let hasRead = false;
  const look = (): void => {
    if (hasRead || !isCurrent(service)) {
      pages.look();
      return;
    }
    hasRead = true;
    pages.release();
  };
  ports.repeat(look, PAGES_MS, over.signal);
  const state = { isLeaving: false };
  const entry = (): ServerEntry => ({
    name,
    addresses: [...options.addresses],
    port: listener.port,
    certificate: own.certificate,
    formats: FOLLOW_FORMATS,
    generation: options.generation,
    isLeaving: state.isLeaving,
  });
  const { leases } = ports;
  const renewal =
    leases === undefined
      ? undefined
      : new LeaseRenewal({
          clock,
          log,
          leases,
          describe: () =>
            isCurrent(service) ? leasedAs(entry(), release, { service, renewedMs: clock.now() }) : undefined,
          onServers: (servers) => service.announce(currentServers(servers)),
        });
  const running = Promise.all([service.run(over.signal), renewal?.run(over.signal)]);
  return {
    service,
    listener,
    identity,
    entry,
    isKnown: () => renewal?.isKnown ?? true,
    leave: async (withinMs) => {
      using limit = timeLimit(LAST_LEASE_MS);
      state.isLeaving = true;
      listener.stopListening();
      await renewal?.renew(limit.signal);
      service.leave(withinMs * LEAVE_SHARE);
    },
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await running;
      await listener[Symbol.asyncDispose]();
      using limit = timeLimit(LAST_LEASE_MS);
      await leases?.remove(name, limit.signal).catch(() => undefined);
    },
  };
}

/** A topic that has failed does so alone: it must not make the server unknown, which serves the others. */
function isCurrent(service: FollowService): boolean {
  const topics = [...service.topics];
  const isRefused = ({ failure }: ServedTopic): boolean => failure !== undefined && !ERRORS[failure.code].retry;
  return (
    topics.every(({ isLoaded, failure }) => isLoaded || failure !== undefined) &&
    (topics.some((topic) => topic.isCurrent) || topics.every(isRefused))
  );
}

function leasedAs(
  entry: ServerEntry,
  release: string,
  { service, renewedMs }: { readonly service: FollowService; readonly renewedMs: number },
): LeasedServer {
  const releases = [...service.sessions].map(({ client }) => client.release);
  const [first, ...others] = releases;
  const oldestClient = others.reduce((oldest, each) => (isNewerRelease(oldest ?? '', each) ? each : oldest), first);
  return { entry, release, clients: releases.length, oldestClient, renewedMs };
}

function isBlockRoutes({ kind }: Query): boolean {
  return kind === 'block-routes';
}

function entryOf(topic: FollowTopic): readonly (readonly [FollowTopic, Query])[] {
  const query = queryOfTopic(topic);
  return query === undefined ? [] : [[topic, query]];
}

/** A mixed installation would route to some nodes by blocks and to others by CIDRs. */
function refuseMismatch({ about: said, node }: AdmittedClient, usesPodCidrs: boolean): void {
  const read = v.safeParse(about, said ?? {});
  const theirs = read.success && read.output.usesPodCidrs;
  if (theirs === usesPodCidrs) return;
  throw new NetplugError(
    'typha/pod-cidr-mismatch',
    `Cannot serve the agent of node "${node}": its USE_POD_CIDR is ${String(theirs)}, that of netplug-typha is ${String(usesPodCidrs)}`,
    { hint: 'Set USE_POD_CIDR to the same value on both', facts: { node, agent: theirs, server: usesPodCidrs } },
  );
}
