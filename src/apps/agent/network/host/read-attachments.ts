import type { Clock } from '../../../../base/clock.ts';
import type { Log } from '../../../../base/log.ts';
import type { AttachmentRecords } from '../../../../cni/attachment-records.ts';
import { type AttachmentRecord, NO_MANAGER } from '../../../../model/attachment-record.ts';
import { handleOf, interfaceKey } from '../../../../model/names.ts';
import type { ListedEndpoints } from '../policy/local-pods.ts';
import { type LocalEndpoints, localEndpoints } from './local-endpoints.ts';

/** Time that an ADD may take from its record to its link, and how often to check for the link. */
const LINKING_MS = 30_000;
const LINK_CHECK_MS = 200;
/** Time for which the link of a record must be missing before the record is removed: the ADD was killed, or the node rebooted. */
const FORGET_MS = 600_000;

export interface AttachmentPorts {
  readonly attachments: Pick<AttachmentRecords, 'list' | 'remove'> & {
    /** Calls `onChange` when any program may have changed a record. */
    readonly watch: (onChange: () => void) => Disposable;
  };
  /** `<containerId>/<ifName>` of every pod link the kernel has. */
  readonly listAttached: () => ReadonlySet<string>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The records of attachments that have a link. */
export interface Granted {
  readonly endpoints: LocalEndpoints;
  /** Malformed records that were skipped, a sentence each. */
  readonly problems: readonly string[];
}

/** Reads the records of attachments and ignores those without a link. */
export class AttachmentReader {
  readonly #ports: AttachmentPorts;
  readonly #onDue: () => void;
  /** When each missing link was first missed, by handle. */
  #unlinkedSince: ReadonlyMap<string, number> = new Map();
  #problems: readonly string[] = [];

  /** Calls `onDue` when the records must be read again soon. */
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
    // Polls, because the kernel events that the agent receives do not cover links of pods.
    const isLinking = unlinked.some((record) => nowMs - sinceMs(record) < LINKING_MS);
    if (isLinking) void clock.sleep(LINK_CHECK_MS, signal).then(this.#onDue, () => undefined);
    return { endpoints: localEndpoints(records.filter(isLinked)), problems };
  }
}

/** Lists the endpoints that only records of attachments have. @throws cni/record-failed */
export async function listEndpoints({
  attachments,
  listAttached,
}: Pick<AttachmentPorts, 'attachments' | 'listAttached'>): Promise<ListedEndpoints> {
  const { records, problems } = await attachments.list();
  const isComplete = problems.length === 0;
  if (records.every(({ endpoint }) => endpoint === undefined)) return { endpoints: [], isComplete };
  const attached = listAttached();
  const endpoints = records.flatMap(({ endpoint, at, attachment }) =>
    endpoint === undefined ? [] : { endpoint, at, isLinked: attached.has(interfaceKey(attachment)) },
  );
  return { endpoints, isComplete };
}

/** Reports whether the agent may remove the record. DEL and GC need those of other address managers. */
function isOwn({ addressManager }: AttachmentRecord): boolean {
  return addressManager === 'netplug-ipam' || addressManager === NO_MANAGER;
}
