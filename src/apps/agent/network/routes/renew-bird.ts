import type { RetryPorts } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import type { Bird } from '../../../../bgp/bird.ts';
import type { SessionStatus } from '../../../../bgp/read-status.ts';
import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import { formatAddress } from '../../../../net/address.ts';

export interface RenewalPorts extends RetryPorts {
  readonly bird: Pick<Bird, 'status' | 'linksSinceStart' | 'exitGracefully'>;
  readonly host: Pick<HostNetwork, 'newestPodLink'>;
  readonly log: Log;
}

/** Between two checks; up to twice as long, so that nodes do not restart together. */
const CHECK_MS = 300_000;
/** Time for which sessions must stand: the recovery of this node and of its peers from an earlier restart is over by then. */
const SETTLED_MS = 120_000;
/** Time for a restart, until the sessions are back. */
const RESTART_S = 60;
/** Multiple of the links from which on a restart that must wait is a warning. */
const OVERDUE = 2;

export interface RenewalOptions {
  /** BIRD is restarted when the host has got so many links since it started; 0 for never. */
  readonly afterLinks: number;
  /** Reports whether BIRD has loaded what this agent wants, and would be started again with it. */
  readonly isInForce: () => boolean;
}

/**
 * Restarts BIRD gracefully before it keeps entries of too many links: BIRD 2 has one of every interface until it exits, and
 * searches all of them for each message of the kernel. Waits while a peer would drop its routes.
 */
export class BirdRenewal {
  readonly #ports: RenewalPorts;
  readonly #options: RenewalOptions;
  /** Text that was last logged, so that the same text is logged once. */
  #logged = '';

  constructor(ports: RenewalPorts, options: RenewalOptions) {
    this.#ports = ports;
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#ports;
    while (this.#options.afterLinks > 0) {
      await clock.sleep(CHECK_MS + random.int(CHECK_MS), signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.#check(signal);
      } catch (cause) {
        if (!signal.aborted) log.warning('graceful restart of BIRD failed', { reason: reasonOf(cause) });
      }
    }
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { bird, host, clock, log } = this.#ports;
    const { afterLinks, isInForce } = this.#options;
    const [sessions, newest] = [await bird.status(signal), await host.newestPodLink()];
    if (sessions === undefined || newest === undefined) return;
    const links = await bird.linksSinceStart(newest);
    if (links < afterLinks) return;
    const reason = isInForce()
      ? reasonToWait(sessions, clock.now())
      : 'BIRD has not loaded what this agent wants, or no pool needs it';
    if (reason === undefined) {
      log.info('BIRD restarted', { links, reason: 'BIRD keeps an entry of each link since its start' });
      await bird.exitGracefully(signal);
      return;
    }
    const level = links < OVERDUE * afterLinks ? 'info' : 'warning';
    if (this.#logged === `${level} ${reason}`) return;
    log[level]('BIRD restart postponed', { links, reason });
    this.#logged = `${level} ${reason}`;
  }
}

/** Returns why a restart of BIRD could cost routes now, a clause. `nowMs` is in milliseconds since the epoch. */
export function reasonToWait(
  sessions: readonly Pick<SessionStatus, 'peerAddress' | 'state' | 'sinceMs' | 'bfd' | 'keepsRoutesS'>[],
  nowMs: number,
): string | undefined {
  for (const { peerAddress, state, sinceMs, bfd, keepsRoutesS } of sessions) {
    const session = `the session with ${formatAddress(peerAddress)}`;
    if (!(nowMs - sinceMs >= SETTLED_MS)) return `${session} has changed its state within 2 minutes`;
    // A peer that has been away for longer has no routes that it could drop.
    if (state !== 'Established') continue;
    if (bfd === 'Up') return `the peer of ${session} would take it for lost by BFD`;
    if (keepsRoutesS === 0) return `the peer of ${session} does not support graceful restart`;
    if (keepsRoutesS < RESTART_S)
      return `${session} has a graceful restart time of ${String(keepsRoutesS)} s, less than ${String(RESTART_S)} s`;
  }
  return undefined;
}
