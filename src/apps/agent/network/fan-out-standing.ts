import type { ShownNetwork } from '../../../model/shown-network.ts';
import type { FanOutGauges } from '../network-gauges.ts';

/** The connection to a server of netplug-typha. Times are of the monotonic clock, and undefined without a server. */
interface TyphaStanding {
  readonly server: string | undefined;
  readonly sinceMs: number | undefined;
  readonly heardMs: number | undefined;
  readonly moves: number;
  /** Records that differed after moves. */
  readonly differed: number;
  /** Why the last connection failed or ended. */
  readonly lastError: string | undefined;
  /** The code of that error; undefined where the connection only ended. */
  readonly lastCode: string | undefined;
}

/** What the network process follows through netplug-typha, and when it looks. */
export interface FanOutSource {
  readonly standing: () => TyphaStanding;
  readonly now: () => number;
  readonly monotonic: () => number;
}

export function shownFanOut({ standing, now, monotonic }: FanOutSource): NonNullable<ShownNetwork['fanOut']> {
  const { server, sinceMs, heardMs, moves, lastError, lastCode } = standing();
  if (heardMs === undefined || server === undefined || sinceMs === undefined)
    return {
      moves,
      ...(lastError === undefined ? {} : { lastError }),
      ...(lastCode === undefined ? {} : { lastCode }),
    };
  const since = new Date(now() - (monotonic() - sinceMs)).toISOString();
  return { server, since, heardSecondsAgo: secondsSince(heardMs, monotonic), moves };
}

export function fanOutGauges({ standing, monotonic }: FanOutSource): FanOutGauges {
  const { heardMs, moves, differed } = standing();
  const isConnected = heardMs !== undefined;
  return { isConnected, heardSecondsAgo: isConnected ? secondsSince(heardMs, monotonic) : 0, moves, differed };
}

function secondsSince(ms: number, monotonic: () => number): number {
  return Math.max(0, Math.round((monotonic() - ms) / 100) / 10);
}
