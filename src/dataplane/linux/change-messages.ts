/** Messages of nf_tables about changes that a program has made. Pure. */
import type { TableChange } from '../table-events.ts';
import { attributeText, decodeAttributes, decodeNotes } from './netlink.ts';
import { NFGENMSG_BYTES, NFNL_SUBSYS_NFTABLES, NFPROTO_INET, NFT_MSG } from './nft-numbers.ts';

/** Multicast group of the netfilter socket. */
export const CHANGE_GROUP = 7;
const ATTRIBUTE_HEADER_BYTES = 4;
/** Messages about tables, chains and rules. Elements of sets change all the time, and decide about few packets. */
const OF_RULES: ReadonlySet<number> = new Set([
  NFT_MSG.NEWTABLE,
  NFT_MSG.DELTABLE,
  NFT_MSG.NEWCHAIN,
  NFT_MSG.DELCHAIN,
  NFT_MSG.NEWRULE,
  NFT_MSG.DELRULE,
]);
/** Ends a transaction. */
const NFT_MSG_NEWGEN = (NFNL_SUBSYS_NFTABLES << 8) | 15;
const NFTA_GEN_PROC_NAME = 3;

/**
 * Returns a function that decodes what a member of the group receives: the changes of the tables by sockets that are not own
 * ones. A transaction may span several calls.
 */
export function changeReader(
  tables: readonly string[],
  isOwn: (port: number) => boolean,
): (bytes: Buffer) => readonly TableChange[] {
  const touched = new Set<string>();
  let hasChangedOthers = false;
  return (bytes) => {
    const changes: TableChange[] = [];
    for (const { type, port, body } of decodeNotes(bytes)) {
      if (type >> 8 !== NFNL_SUBSYS_NFTABLES || isOwn(port)) continue;
      if (type !== NFT_MSG_NEWGEN) {
        const name = tableIn(body);
        if (name !== undefined && tables.includes(name)) touched.add(name);
        else hasChangedOthers ||= OF_RULES.has(type & 0xff);
      } else if (touched.size > 0 || hasChangedOthers) {
        changes.push({
          tables: [...touched],
          program: programIn(body),
          ...(hasChangedOthers ? { hasChangedOthers } : {}),
        });
        touched.clear();
        hasChangedOthers = false;
      }
    }
    return changes;
  };
}

/** Returns the name of the `inet` table that the message is about, its first attribute: other programs may have thousands of rules. */
function tableIn(body: Buffer): string | undefined {
  if (body.length < NFGENMSG_BYTES + ATTRIBUTE_HEADER_BYTES || body.readUInt8(0) !== NFPROTO_INET) return undefined;
  const end = NFGENMSG_BYTES + body.readUInt16LE(NFGENMSG_BYTES);
  return attributeText(body.subarray(NFGENMSG_BYTES + ATTRIBUTE_HEADER_BYTES, end));
}

function programIn(body: Buffer): string | undefined {
  const name = decodeAttributes(body.subarray(NFGENMSG_BYTES)).get(NFTA_GEN_PROC_NAME);
  return name && attributeText(name);
}
