import type { Clock } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import type { Random } from '../../../base/random.ts';
import type { Bird } from '../../../bgp/bird.ts';
import type { SessionStatus } from '../../../bgp/read-status.ts';
import type { HostNetwork } from '../../../dataplane/host-network.ts';
import { formatAddress } from '../../../net/address.ts';

export interface RenewalPorts {
  readonly bird: Pick<Bird, 'status' | 'linksSinceStart' | 'exitGracefully'>;
  readonly host: Pick<HostNetwork, 'newestLink'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** Between two checks; up to twice as long, so that nodes do not restart together. */
const CHECK_MS = 300_000;
/** How long all sessions must stand: the recovery of this node and of its peers from an earlier restart is over by then. */
const SETTLED_MS = 300_000;
/** Time for a restart, until the sessions are back. */
const RESTART_S = 60;

/**
 * Restarts BIRD gracefully when the host has got `afterLinks` links since it started, because BIRD 2 keeps an entry of every
 * interface until it exits and searches all of them for each message of the kernel. Waits while a peer would drop its routes.
 */
export class BirdRenewal {
  readonly #ports: RenewalPorts;
  readonly #afterLinks: number;
  #reported: string | undefined;

  /** Never restarts BIRD with `afterLinks` 0. */
  constructor(ports: RenewalPorts, afterLinks: number) {
    this.#ports = ports;
    this.#afterLinks = afterLinks;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#ports;
    while (this.#afterLinks > 0) {
      await clock.sleep(CHECK_MS + random.int(CHECK_MS), signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.#check(signal);
      } catch (cause) {
        if (!signal.aborted) log.warning('BIRD not checked for a restart', { reason: reasonOf(cause) });
      }
    }
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { bird, host, clock, log } = this.#ports;
    const sessions = await bird.status(signal);
    if (sessions === undefined) return;
    const links = await bird.linksSinceStart(await host.newestLink());
    if (links < this.#afterLinks) return;
    const reason = reasonToWait(sessions, clock.now());
    if (reason === undefined) {
      log.info('BIRD is restarted gracefully', { links, why: 'it keeps an entry of each link since its start' });
      await bird.exitGracefully(signal);
    } else if (reason !== this.#reported) {
      log.info('BIRD is not restarted yet', { links, reason });
    }
    this.#reported = reason;
  }
}

/** Returns why a restart of BIRD could cost routes now, a clause. `nowMs` is in milliseconds since the epoch. */
export function reasonToWait(
  sessions: readonly Pick<SessionStatus, 'peerAddress' | 'state' | 'sinceMs' | 'keepsRoutesS'>[],
  nowMs: number,
): string | undefined {
  for (const { peerAddress, state, sinceMs, keepsRoutesS } of sessions) {
    const peer = formatAddress(peerAddress);
    if (state !== 'Established') return `the session with ${peer} is not established`;
    if (keepsRoutesS === 0) return `${peer} does not support graceful restart`;
    if (keepsRoutesS < RESTART_S) return `${peer} keeps routes for ${String(keepsRoutesS)} s only`;
    if (!(nowMs - sinceMs >= SETTLED_MS)) return `the session with ${peer} is younger than 5 minutes`;
  }
  return undefined;
}
