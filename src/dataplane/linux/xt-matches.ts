/** Matches of iptables in rules of nftables: the fields of those that many firewalls have. Pure. */

/** Offsets in `xt_conntrack_mtinfo2` and 3, whose ends differ. */
const CONNTRACK = { flags: 146, inverted: 148, states: 150 } as const;

/** Returns what the match asks for; nothing for one that is not decoded. Numbers are in the order of this machine. */
export function matchFields(name: string, revision: number, info: Buffer): Readonly<Record<string, number>> {
  if (name === 'addrtype' && revision === 1 && info.length >= 8)
    return {
      sourceTypes: info.readUInt16LE(0),
      destinationTypes: info.readUInt16LE(2),
      flags: info.readUInt32LE(4),
    };
  if (name === 'conntrack' && revision >= 2 && info.length >= CONNTRACK.states + 2)
    return {
      flags: info.readUInt16LE(CONNTRACK.flags),
      inverted: info.readUInt16LE(CONNTRACK.inverted),
      states: info.readUInt16LE(CONNTRACK.states),
    };
  return {};
}
