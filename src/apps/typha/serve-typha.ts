import * as v from 'valibot';
import type { RetryPorts } from '../../base/back-off.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { FollowStore, Query } from '../../datastore/follow.ts';
import { CLIENT_BYTES, FOLLOW_FORMATS, FOLLOW_PROTOCOL } from '../../datastore/typha/follow-frames.ts';
import { FANNED_OUT, type FollowTopic, queryOfTopic } from '../../datastore/typha/topics.ts';
import type { AdmittedClient } from '../../stream/admit-client.ts';
import type { OwnCertificate } from '../../stream/own-certificate.ts';
import type { PendingLimits } from '../../stream/connection-limits.ts';
import { type IdentityOptions, TokenIdentity } from '../../stream/token-identity.ts';
import { startTlsServer, type TlsServer } from '../../stream/tls-server.ts';
import { FollowService } from './follow-service.ts';
import { emptySource } from './empty-source.ts';

export interface TyphaOptions {
  /** The name by which clients know the server: that of its pod. */
  readonly name: string;
  readonly release: string;
  readonly listen: { readonly host: string; readonly port: number };
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
}

/** What agents say of themselves. */
const about = v.looseObject({ usesPodCidrs: v.optional(v.boolean(), false) });

/** A server that is listening. Disposing ends all connections. */
export interface RunningTypha extends AsyncDisposable {
  readonly service: FollowService;
  readonly listener: TlsServer;
  readonly identity: TokenIdentity;
}

/** Serves followed records to agents until it is disposed of. @throws store/config-invalid when it cannot listen */
export async function serveTypha(options: TyphaOptions, ports: TyphaPorts): Promise<RunningTypha> {
  const { name, release, listen, own, maxClients, usesPodCidrs, topics = FANNED_OUT, pending } = options;
  const { clock, log } = ports;
  const service = new FollowService({
    ports: { ...ports, store: usesPodCidrs ? emptySource(ports.store, isBlockRoutes) : ports.store },
    topics: new Map(topics.flatMap((topic) => entryOf(topic))),
    maxClients,
  });
  const identity = new TokenIdentity({ ...options.identity, clock });
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
  const running = service.run(over.signal);
  return {
    service,
    listener,
    identity,
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await running;
      await listener[Symbol.asyncDispose]();
    },
  };
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
