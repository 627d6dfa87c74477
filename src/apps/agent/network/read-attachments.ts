import type { Clock } from '../../../base/clock.ts';
import type { Log } from '../../../base/log.ts';
import type { AttachmentRecords } from '../../../cni/attachment-records.ts';
import { type AttachmentRecord, NO_MANAGER } from '../../../model/attachment-record.ts';
import { handleOf, interfaceKey } from '../../../model/names.ts';
import { type LocalEndpoints, localEndpoints } from './local-endpoints.ts';

/** How long after its record an ADD may take to make the link, and how often it is looked for until then. */
const LINKING_MS = 30_000;
const LOOK_MS = 200;
/** A record whose link is missing for so long is removed: its ADD has ended, or its link went with the boot. */
const FORGET_MS = 600_000;

export interface AttachmentPorts {
  readonly attachments: Pick<AttachmentRecords, 'list' | 'remove'> & {
    /** Calls when a record may be another, whichever program wrote it. */
    readonly watch: (onChange: () => void) => Disposable;
  };
  /** `<containerId>/<ifName>` of every pod link the kernel has. */
  readonly listAttached: () => ReadonlySet<string>;
  readonly clock: Clock;
  readonly log: Log;
}

/** What the node's own records grant to attachments that are there. */
export interface Granted {
  readonly endpoints: LocalEndpoints;
  /** Records that cannot be understood, and were left out. */
  readonly problems: readonly string[];
}

/** Reads the records of attachments. One whose attachment has no link grants nothing. */
export class AttachmentReader {
  readonly #ports: AttachmentPorts;
  readonly #onDue: () => void;
  /** Since when the link of a record is missing, by handle. */
  #unlinkedSince: ReadonlyMap<string, number> = new Map();
  #problems: readonly string[] = [];

  /** `onDue` is called when it is worth reading again soon. */
  constructor(ports: AttachmentPorts, onDue: () => void) {
    this.#ports = ports;
    this.#onDue = onDue;
  }

  /** @throws cni/record-failed */
  async read(signal: AbortSignal): Promise<Granted> {
    const { attachments, listAttached, clock, log } = this.#ports;
    const { records, problems } = await attachments.list();
    for (const problem of problems)
      if (!this.#problems.includes(problem)) log.warning('attachment record skipped', { problem });
    this.#problems = problems;
    const attached = records.length === 0 ? new Set<string>() : listAttached();
    const isLinked = ({ attachment }: AttachmentRecord): boolean => attached.has(interfaceKey(attachment));
    const nowMs = clock.monotonic();
    const unlinked = records.filter((record) => !isLinked(record));
    const sinceMs = ({ attachment }: AttachmentRecord): number =>
      this.#unlinkedSince.get(handleOf(attachment)) ?? nowMs;
    this.#unlinkedSince = new Map(unlinked.map((record) => [handleOf(record.attachment), sinceMs(record)]));
    for (const record of unlinked)
      if (isOwn(record) && nowMs - sinceMs(record) >= FORGET_MS) await attachments.remove(record.attachment);
    // The kernel's word of new links is not waited for: the links of pods are left out of it.
    const isLinking = unlinked.some((record) => nowMs - sinceMs(record) < LINKING_MS);
    if (isLinking) void clock.sleep(LOOK_MS, signal).then(this.#onDue, () => undefined);
    return { endpoints: localEndpoints(records.filter(isLinked)), problems };
  }
}

/** Of other address managers DEL and GC must still find it. */
function isOwn({ addressManager }: AttachmentRecord): boolean {
  return addressManager === 'netplug-ipam' || addressManager === NO_MANAGER;
}
