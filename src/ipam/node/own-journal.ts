import type { Clock } from '../../base/clock.ts';
import { isNetplugError, type NetplugError, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Sentence } from '../../model/node-report.ts';
import type { Entry } from './entry.ts';
import type { JournalHeader } from './entry-codec.ts';
import { Journal, type JournalPlace, type Segment } from './journal.ts';

/** Interval at which a journal that could not be opened is tried again. */
const RETRY_MS = 10_000;
/** Time for which a failure is reported: only another entry shows that the journal works again. */
const REPORT_MS = 60_000;

interface OwnJournalPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly place: JournalPlace;
}

/**
 * The journal of this run, which a full or broken disk does not keep from serving calls: without it each call waits for the
 * datastore.
 */
export class OwnJournal {
  readonly #ports: OwnJournalPorts;
  readonly #header: JournalHeader;
  #journal: Journal | undefined;
  /** The last failure, and when it was on the monotonic clock. */
  #failed: { readonly cause: NetplugError; readonly atMs: number } | undefined;

  constructor(ports: OwnJournalPorts, header: JournalHeader) {
    this.#ports = ports;
    this.#header = header;
  }

  /** Returns what an administrator must act on. */
  warnings(): readonly Sentence[] {
    const cause = this.#reported;
    return cause === undefined ? [] : [{ code: cause.code, text: cause.message, remedy: cause.hint }];
  }

  /** Opens the journal unless it is open or has just failed. Never throws: `warnings` reports the failure. */
  open(): void {
    const { clock, log, place } = this.#ports;
    if (this.#journal !== undefined) return;
    if (this.#failed !== undefined && clock.monotonic() - this.#failed.atMs < RETRY_MS) return;
    try {
      this.#journal = Journal.open(place, this.#header);
      if (this.#failed !== undefined) log.info('journal opened', { folder: place.folder });
      this.#failed = undefined;
    } catch (cause) {
      this.#noteFailure(cause);
    }
  }

  /** Resolves when the entry survives a crash. @throws agent/journal-failed; then the entry is not in the journal */
  async add(entry: Entry): Promise<Segment> {
    if (this.#journal === undefined && this.#failed !== undefined) throw this.#failed.cause;
    try {
      this.#journal ??= Journal.open(this.#ports.place, this.#header);
      const segment = await this.#journal.add(entry);
      this.#failed = undefined;
      return segment;
    } catch (cause) {
      throw this.#noteFailure(cause);
    }
  }

  /** Marks an entry of the segment as written to the datastore. */
  complete(segment: Segment): void {
    this.#journal?.complete(segment);
  }

  /** See `Journal.close`. */
  close(options: { readonly isNeeded: boolean }): void {
    this.#journal?.close(options);
  }

  get #reported(): NetplugError | undefined {
    if (this.#failed === undefined) return undefined;
    const { cause, atMs } = this.#failed;
    return this.#journal === undefined || this.#ports.clock.monotonic() - atMs <= REPORT_MS ? cause : undefined;
  }

  #noteFailure(cause: unknown): NetplugError {
    if (!isNetplugError(cause, 'agent/journal-failed')) throw cause;
    if (this.#reported === undefined) this.#ports.log.error('journal failed', { reason: reasonOf(cause) });
    this.#failed = { cause, atMs: this.#ports.clock.monotonic() };
    return cause;
  }
}
