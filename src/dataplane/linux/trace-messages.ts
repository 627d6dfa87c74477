/** Messages of nf_tables about packets that a rule traces. Pure. */
import { attributesIn, decodeAttributes, decodeNotes, textOfAttribute } from './netlink.ts';
import { be32Of, be64Of, familyOf } from './nft-messages.ts';

/** Multicast group of the netfilter socket. */
export const TRACE_GROUP = 9;
const NFT_MSG_TRACE = (10 << 8) | 17;
const HEADER_BYTES = 4;
const NFTA_TRACE = { TABLE: 1, CHAIN: 2, RULE_HANDLE: 3, TYPE: 4, VERDICT: 5, ID: 6, POLICY: 16 } as const;
const NFTA_VERDICT_CODE = 1;
const TYPES = ['unknown', 'policy', 'return', 'rule'] as const;
const [NF_DROP, NF_ACCEPT] = [0, 1];
export interface TraceEvent {
  /** The same for all events of one packet. */
  readonly packet: number;
  /** Family and name. */
  readonly table: string;
  readonly chain: string;
  /** The handle of the rule; 0 at the end of a chain. */
  readonly handle: bigint;
  readonly verdict: 'accept' | 'drop' | 'next';
}

/** Decodes what a member of the group receives. */
export function* readTrace(bytes: Buffer): Generator<TraceEvent> {
  for (const { type, body } of decodeNotes(bytes)) {
    if (type !== NFT_MSG_TRACE) continue;
    const attributes = decodeAttributes(body.subarray(HEADER_BYTES));
    const kind = TYPES[be32Of(attributes.get(NFTA_TRACE.TYPE))];
    const verdict = attributesIn(attributes, NFTA_TRACE.VERDICT).get(NFTA_VERDICT_CODE);
    yield {
      packet: be32Of(attributes.get(NFTA_TRACE.ID)),
      table: `${familyOf(body)} ${textOfAttribute(attributes, NFTA_TRACE.TABLE)}`,
      chain: textOfAttribute(attributes, NFTA_TRACE.CHAIN),
      handle: be64Of(attributes.get(NFTA_TRACE.RULE_HANDLE)),
      verdict: verdictOf(kind === 'policy' ? attributes.get(NFTA_TRACE.POLICY) : verdict),
    };
  }
}

function verdictOf(code: Buffer | undefined): TraceEvent['verdict'] {
  if (code === undefined) return 'next';
  const number = be32Of(code);
  if (number === NF_ACCEPT) return 'accept';
  return number === NF_DROP ? 'drop' : 'next';
}
