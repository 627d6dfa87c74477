/** Messages about reported packets: the subsystem of netfilter netlink for logs. Pure. */
import { readPacketHeaders } from '../packet-headers.ts';
import type { PacketReport } from '../packet-reports.ts';
import { attribute, attributeText, decodeAttributes, decodeNotes, type Message, NLM_F_ACK } from './netlink.ts';

const ULOG = 4 << 8;
const ULOG_PACKET = ULOG | 0;
const ULOG_CONFIG = ULOG | 1;
const HEADER_BYTES = 4;

const NFULA_PAYLOAD = 9;
const NFULA_PREFIX = 10;
const NFULA_SEQ = 12;
const NFULA_CFG = { CMD: 1, MODE: 2, TIMEOUT: 4, FLAGS: 6 } as const;
const COMMAND_BIND = 1;
const COPY_PACKET = 2;
/** The kernel numbers the messages of a socket, so that losses can be counted. */
const FLAG_SEQUENCE = 1;
/** Time for which the kernel collects packets into one message, in hundredths of a second. */
const COLLECT = 10;

/** Makes the socket the listener of the group, with at most so many bytes of each packet. */
export function listenToGroup(group: number, packetBytes: number): Message {
  const mode = Buffer.alloc(6);
  mode.writeUInt32BE(packetBytes, 0);
  mode.writeUInt8(COPY_PACKET, 4);
  const body = Buffer.concat([
    Buffer.from([0, 0, group >> 8, group & 0xff]),
    attribute(NFULA_CFG.CMD, Buffer.from([COMMAND_BIND])),
    attribute(NFULA_CFG.MODE, mode),
    attribute(NFULA_CFG.TIMEOUT, Buffer.from([0, 0, 0, COLLECT])),
    attribute(NFULA_CFG.FLAGS, Buffer.from([0, FLAG_SEQUENCE])),
  ]);
  return { type: ULOG_CONFIG, flags: NLM_F_ACK, body };
}

/** Returns a function that decodes what a socket receives. It remembers the last number, to count what was lost. */
export function reportReader(): (bytes: Buffer) => Iterable<PacketReport> {
  let expected: number | undefined;
  return function* read(bytes) {
    for (const { type, body } of decodeNotes(bytes)) {
      if (type !== ULOG_PACKET) continue;
      const attributes = decodeAttributes(body.subarray(HEADER_BYTES));
      const sequence = attributes.get(NFULA_SEQ);
      if (sequence !== undefined && sequence.length >= 4) {
        const number = sequence.readUInt32BE();
        const lost = expected === undefined ? 0 : (number - expected) >>> 0;
        if (lost > 0) yield { kind: 'lost', packets: lost };
        expected = (number + 1) >>> 0;
      }
      const prefix = attributes.get(NFULA_PREFIX);
      const headers = readPacketHeaders(attributes.get(NFULA_PAYLOAD) ?? Buffer.alloc(0));
      if (prefix === undefined || headers === undefined) yield { kind: 'lost', packets: 1 };
      else yield { kind: 'packet', prefix: attributeText(prefix), headers };
    }
  };
}
