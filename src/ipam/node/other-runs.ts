import { rmSync } from 'node:fs';
import { reasonOf } from '../../base/errors.ts';
import { takenBy } from './entry.ts';
import { journalsOfOtherDatastores, readJournal, runsToRecover, runsWithJournal } from './orphaned-journals.ts';
import {
  type RecoveryScope,
  outdatedDamagedSegments,
  type RecoveryPorts,
  recoverJournals,
  unfinishedEntries,
} from './recover.ts';
import { isOnMachine } from './run-id.ts';

/** Time for which addresses that a run on another machine has pre-allocated are kept, as after a reinstallation. */
const OTHER_MACHINE_MS = 600_000;

/**
 * Recovers the journals of other runs of the node's agent, and determines which of these runs have ended: those without a
 * journal on this machine. A run of another machine may have a journal there, and counts as ended after ten minutes.
 */
export class OtherRuns {
  readonly #ports: RecoveryPorts;
  readonly #scope: Required<RecoveryScope>;
  readonly #observedSinceMs = new Map<string, number>();
  #isRecovering = false;

  constructor(ports: RecoveryPorts, scope: Required<RecoveryScope>) {
    this.#ports = ports;
    this.#scope = scope;
  }

  /** Recovers orphaned journals before this run begins. @throws store/* */
  async recover(signal: AbortSignal): Promise<void> {
    const { log, place } = this.#ports;
    const newer = await recoverJournals(this.#ports, this.#scope, signal);
    if (newer.length > 0) log.warning('journals of a newer release kept', { folder: place.folder, runs: newer });
    for (const path of outdatedDamagedSegments(this.#ports)) {
      rmSync(path, { force: true });
      log.info('damaged journal of an earlier boot removed', { path });
    }
    const segments = journalsOfOtherDatastores(place, this.#scope.datastore);
    if (segments.length > 0) log.warning('journals of other datastores kept', { segments });
  }

  /** Recovers the journals of runs that have ended since, as on an upgrade. Never rejects. */
  async recoverEnded(signal: AbortSignal): Promise<void> {
    const { place, log } = this.#ports;
    const { datastore, ownRun } = this.#scope;
    if (this.#isRecovering) return;
    this.#isRecovering = true;
    try {
      if ([...runsToRecover(place.folder, datastore)].every((run) => run === ownRun)) return;
      await recoverJournals(this.#ports, this.#scope, signal);
    } catch (cause) {
      log.debug('journals of other runs not recovered yet', { reason: reasonOf(cause) });
    } finally {
      this.#isRecovering = false;
    }
  }

  /** Reports whether replaying the journal of another run takes the allocation back. */
  mayTakeBack(id: string): boolean {
    const { place, listAttached } = this.#ports;
    const { datastore, ownRun } = this.#scope;
    return [...runsToRecover(place.folder, datastore)].some((run) => {
      const entries = run === ownRun ? [] : readJournal(place.folder, run);
      // A release that is newer replays its own.
      if (entries === 'newer') return false;
      const frees = entries.some(({ slots }) => slots.some((slot) => slot.kind === 'free' && slot.id === id));
      const taken = entries.filter(({ slots }) => takenBy(slots).some(({ allocation }) => allocation.id === id));
      return frees || (taken.length > 0 && unfinishedEntries(taken, listAttached()).length > 0);
    });
  }

  /** Returns the runs that have ended. */
  ended(runs: ReadonlySet<string>): ReadonlySet<string> {
    const { host, place } = this.#ports;
    const others = [...runs].filter((run) => run !== this.#scope.ownRun);
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
    this.#ports.log.warning('foreign warm pool kept', {
      run,
      releasedAfterSeconds: OTHER_MACHINE_MS / 1000,
    });
    return false;
  }
}
