import { sha256Of } from '../base/sha256.ts';
import type { ServerEntry } from './handshake.ts';

/** The server that a client has. */
export interface ServerNow {
  readonly name: string;
  /** Whether it has asked the client to move. */
  readonly isLeaving: boolean;
}

/**
 * Returns the servers in the order in which the node prefers them: rendezvous hashing, so that all nodes spread evenly, and a server
 * more or less moves only the nodes that prefer it. Those that are leaving come last. A client stays among the servers that were
 * started with its own one until that leaves, and then takes one of those that replace it: so it moves once when all are replaced.
 */
export function preferredServers(
  node: string,
  servers: readonly ServerEntry[],
  now?: ServerNow,
): readonly ServerEntry[] {
  const own = servers.find(({ name }) => name === now?.name);
  const isPreferred = ({ generation }: ServerEntry): boolean =>
    own !== undefined && (generation === own.generation) !== now?.isLeaving;
  const ranked = servers.map((server) => ({
    server,
    // Of two servers the larger text is preferred.
    rank: `${server.isLeaving ? '0' : '1'}${isPreferred(server) ? '1' : '0'}${sha256Of(`${node}\0${server.name}`)}`,
  }));
  return ranked.sort((a, b) => (a.rank < b.rank ? 1 : -1)).map(({ server }) => server);
}
