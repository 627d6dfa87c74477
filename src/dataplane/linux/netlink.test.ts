import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  attribute,
  decodeAttributes,
  decodeReplies,
  encodeMessage,
  nested,
  type Reply,
  textAttribute,
  attributeText,
} from './netlink.ts';

const payload = fc.uint8Array({ maxLength: 40 });

function decodeReply(bytes: Buffer, sequence: number): Reply {
  return decodeReplies(bytes, sequence, 1)[0]!;
}

/** An NLMSG_ERROR as the kernel makes it: errno, the header of the request, attributes. */
function verdict(sequence: number, errno: number, attributes: Buffer = Buffer.alloc(0)): Buffer {
  const body = Buffer.alloc(20);
  body.writeInt32LE(-errno, 0);
  const message = encodeMessage({ type: 2, flags: 0, body: Buffer.concat([body, attributes]) }, sequence);
  // NLM_F_CAPPED and, with attributes, NLM_F_ACK_TLVS.
  message.writeUInt16LE(attributes.length > 0 ? 0x300 : 0x100, 6);
  return message;
}

describe('netlink attributes', () => {
  it('decode to what was encoded, aligned to four bytes', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 500 }), payload), { selector: ([t]) => t }),
        (all) => {
          const bytes = Buffer.concat(all.map(([type, value]) => attribute(type, value)));
          expect(bytes.length % 4).toBe(0);
          const decoded = [...decodeAttributes(bytes)].map(([type, value]) => [type, Uint8Array.from(value)]);
          expect(decoded).toEqual(all);
        },
      ),
    );
  });

  it('nest, and decode to a type without the nesting flag', () => {
    const outer = decodeAttributes(nested(18, [textAttribute(1, 'veth')]));
    const inner = decodeAttributes(outer.get(18) ?? Buffer.alloc(0));
    expect(attributeText(inner.get(1) ?? Buffer.alloc(0))).toBe('veth');
  });

  it('are never read beyond the end of the buffer', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        expect(() => decodeAttributes(Buffer.from(bytes))).not.toThrow();
      }),
    );
  });
});

describe('netlink replies', () => {
  it('contain only the messages with the sequence number of the request', () => {
    const answer = (sequence: number): Buffer =>
      encodeMessage({ type: 16, flags: 0, body: Buffer.from([sequence, 0, 0, 0]) }, sequence);
    const bytes = Buffer.concat([answer(7), verdict(7, 0), answer(8), verdict(8, 17)]);
    expect(decodeReply(bytes, 7)).toMatchObject({ bodies: [Buffer.from([7, 0, 0, 0])], errno: 0 });
    expect(decodeReply(bytes, 8)).toMatchObject({ bodies: [Buffer.from([8, 0, 0, 0])], errno: 17 });
  });

  it('contain the explanation of the kernel', () => {
    const reply = decodeReply(verdict(1, 22, textAttribute(1, 'mtu greater than device maximum')), 1);
    expect(reply).toMatchObject({ errno: 22, explanation: 'mtu greater than device maximum' });
    expect(decodeReply(verdict(1, 22), 1).explanation).toBeUndefined();
  });

  it('report that a table changed while it was listed', () => {
    const part = encodeMessage({ type: 16, flags: 0x10, body: Buffer.alloc(4) }, 1);
    expect(decodeReply(part, 1).isInterrupted).toBe(true);
    expect(decodeReply(verdict(1, 0), 1).isInterrupted).toBe(false);
  });

  it('are decoded without an exception, whatever their shape', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), fc.nat(3), (bytes, sequence) => {
        expect(() => decodeReply(Buffer.from(bytes), sequence)).not.toThrow();
      }),
    );
  });
});
