import { rmSync } from 'node:fs';
import { reasonOf } from '../../base/errors.ts';
import { journalsOfOthers, runsToRecover, runsWithJournal } from './orphaned-journals.ts';
import { type Leftover, outdatedDamage, type RecoveryPorts, recoverJournals } from './recover.ts';
import { isOnMachine } from './run-id.ts';

/** Addresses that a run on another machine pre-allocated, as before a new installation, stay taken for so long. */
const OTHER_MACHINE_MS = 600_000;

/**
 * Other runs of the node's agent: recovers their journals, and determines which of them are over. A run is over only when no
 * journal of it exists here; what a journal elsewhere says cannot be known, so a run of another machine is given time.
 */
export class OtherRuns {
  readonly #ports: RecoveryPorts;
  readonly #leftover: Required<Leftover>;
  readonly #observedSinceMs = new Map<string, number>();
  #isRecovering = false;

  constructor(ports: RecoveryPorts, leftover: Required<Leftover>) {
    this.#ports = ports;
    this.#leftover = leftover;
  }

  /** Recovers orphaned journals before this run begins. @throws store/* */
  async recover(signal: AbortSignal): Promise<void> {
    const { log, place } = this.#ports;
    await recoverJournals(this.#ports, this.#leftover, signal);
    for (const path of outdatedDamage(this.#ports)) {
      rmSync(path, { force: true });
      log.info('damaged journal of an earlier boot removed', { path });
    }
    const segments = journalsOfOthers(place, this.#leftover.datastore);
    if (segments.length > 0) log.warning('journals of other datastores kept', { segments });
  }

  /** Does the same for runs that have ended since, as on an upgrade. Never rejects. */
  async recoverEnded(signal: AbortSignal): Promise<void> {
    const { place, log } = this.#ports;
    const { datastore, except } = this.#leftover;
    const isAny = [...runsToRecover(place.folder, datastore)].some((run) => run !== except);
    if (this.#isRecovering || !isAny) return;
    this.#isRecovering = true;
    try {
      await recoverJournals(this.#ports, this.#leftover, signal);
    } catch (cause) {
      log.debug('journals of other runs not recovered yet', { reason: reasonOf(cause) });
    } finally {
      this.#isRecovering = false;
    }
  }

  /** Those of the runs that are over. */
  look(runs: ReadonlySet<string>): ReadonlySet<string> {
    const { host, place } = this.#ports;
    const others = [...runs].filter((run) => run !== this.#leftover.except);
    if (others.length === 0) return new Set();
    const journals = runsWithJournal(place.folder);
    return new Set(
      others.filter((run) => !journals.has(run) && (isOnMachine(run, host) || this.#wasObservedLong(run))),
    );
  }

  #wasObservedLong(run: string): boolean {
    const nowMs = this.#ports.clock.monotonic();
    const sinceMs = this.#observedSinceMs.get(run);
    if (sinceMs !== undefined) return nowMs - sinceMs >= OTHER_MACHINE_MS;
    this.#observedSinceMs.set(run, nowMs);
    this.#ports.log.warning('pre-allocated addresses of another machine with the name of this node kept', {
      run,
      releasedAfterSeconds: OTHER_MACHINE_MS / 1000,
    });
    return false;
  }
}
