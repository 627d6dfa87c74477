import { type AttachmentRecord, type FloatingPair, NO_MANAGER } from '../../../../model/attachment-record.ts';
import { handleOf } from '../../../../model/names.ts';
import { type Address, formatAddress } from '../../../../net/address.ts';

/** Facts about the attachments of the node that address translation and BGP need. */
export interface LocalEndpoints {
  readonly floating: readonly FloatingPair[];
  /** Single addresses to announce: floating ones, and those assigned without an address manager. */
  readonly announced: readonly Address[];
  /** Equal for equal contents. */
  readonly text: string;
}

export const NO_ENDPOINTS: LocalEndpoints = { floating: [], announced: [], text: '' };

/** Collects the needs of all attachments, oldest first: of two with the same floating address the older one has it. */
export function localEndpoints(records: readonly AttachmentRecord[]): LocalEndpoints {
  const ordered = records.toSorted((a, b) => (ageKey(a) < ageKey(b) ? -1 : 1));
  const floating = ordered.flatMap((record) => record.floating);
  const unmanaged = ordered
    .filter(({ addressManager }) => addressManager === NO_MANAGER)
    .flatMap(({ addresses }) => addresses);
  const announced = [...floating.map(({ external }) => external), ...unmanaged];
  const pairs = floating.map((pair) => `${formatAddress(pair.external)} ${formatAddress(pair.internal)}`);
  return { floating, announced, text: [...pairs, '', ...unmanaged.map(formatAddress)].join('\n') };
}

function ageKey({ at, attachment }: AttachmentRecord): string {
  return `${at} ${handleOf(attachment)}`;
}
