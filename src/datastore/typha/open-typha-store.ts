import type { RetryPorts } from '../../base/back-off.ts';
import type { repeat } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { NodeName } from '../../model/names.ts';
import { openStream } from '../../stream/open-stream.ts';
import { ServerDirectory } from '../../stream/server-directory.ts';
import type { LeasedServer } from '../../stream/server-lease.ts';
import { connectTo } from '../../stream/tls-client.ts';
import { FOLLOW_FORMATS, FOLLOW_PROTOCOL, SERVER_BYTES } from './follow-frames.ts';
import { TyphaStore } from './typha-store.ts';

export interface TyphaAccess {
  readonly node: NodeName;
  readonly release: string;
  /** Whether the agent derives routes from the pod CIDRs of nodes: USE_POD_CIDR. */
  readonly usesPodCidrs: boolean;
  /** Reads the token of the agent for the servers; kubelets renew it. */
  readonly readToken: () => Promise<string>;
  /** Reads the Leases of the servers. */
  readonly listServers: (signal: AbortSignal) => Promise<readonly LeasedServer[]>;
}

export interface TyphaAccessPorts extends RetryPorts {
  readonly log: Log;
  readonly repeat: typeof repeat;
}

/** Opens a follow over the network, by TLS to the servers that have Leases. Nothing is connected until the first follow. */
export function openTyphaStore(access: TyphaAccess, ports: TyphaAccessPorts): TyphaStore {
  const { node, release, usesPodCidrs, readToken, listServers } = access;
  const { clock, log } = ports;
  const directory: ServerDirectory = new ServerDirectory({
    clock,
    log,
    node,
    list: listServers,
    onChange: () => store.reconsider(),
  });
  const store: TyphaStore = new TyphaStore({
    ...ports,
    servers: {
      order: (now) => directory.order(now),
      learn: (servers) => directory.learn(servers),
      refresh: () => directory.refresh(),
      connect: async (name, listener, signal) => {
        const server = directory.find(name);
        if (server === undefined) throw new NetplugError('store/unavailable', `Cannot connect to ${name}: it is gone`);
        const token = await readToken();
        const socket = await connectTo(server, FOLLOW_PROTOCOL, signal);
        const hello = { token, release, formats: FOLLOW_FORMATS, about: { usesPodCidrs } };
        const { peer } = await openStream(socket, { hello, limitBytes: SERVER_BYTES, clock, listener }, signal);
        return peer;
      },
    },
  });
  return store;
}
