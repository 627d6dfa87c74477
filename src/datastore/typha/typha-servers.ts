import { NetplugError } from '../../base/errors.ts';
import type { ServerNow } from '../../stream/choose-server.ts';
import type { ServerEntry } from '../../stream/handshake.ts';
import type { PeerListener, StreamPeer } from '../../stream/peer.ts';

/** Where the servers are, and how one is reached. */
export interface TyphaServers {
  /** Returns the names of the servers, those first that the node prefers to the one that it has. */
  readonly order: (now?: ServerNow) => readonly string[];
  /** Connects. Resolves when the server has accepted the connection; from then on the listener receives its frames. */
  readonly connect: (server: string, listener: PeerListener, signal: AbortSignal) => Promise<StreamPeer>;
  /** Takes the servers that a server knows. */
  readonly learn: (servers: readonly ServerEntry[]) => void;
  /** Called when no server was found that serves. */
  readonly refresh: () => void;
}

/** Returns the error of a follow that no server serves, and why the last one did not. */
export function noServer(why: string | undefined): NetplugError {
  return new NetplugError(
    'store/unavailable',
    `Cannot follow the datastore: no netplug-typha serves this node${why === undefined ? '' : ` (${why})`}`,
    { hint: 'Run netplugctl typha status' },
  );
}
