import { describe, expect, it } from 'vitest';
import { formatAddress } from '../net/address.ts';
import { readPacketHeaders } from './packet-headers.ts';

const PORTS = 'c0de0050';
const V4_ENDS = 'c0000201c0000202';
const V6_ENDS = '20010db800000000000000000000000120010db8000000000000000000000002';
const v4 = (protocol: string, payload: string, { flags = '0000', head = '45', options = '' } = {}): string =>
  `${head}0000280000${flags}40${protocol}0000${V4_ENDS}${options}${payload}`;
const v6 = (next: string, payload: string): string => `600000000020${next}40${V6_ENDS}${payload}`;
const NO_OPTIONS = '00000000000000';

describe('headers of a packet', () => {
  it.each([
    ['TCP over IPv4', v4('06', PORTS), { protocol: 6, port: 80 }],
    ['IPv4 with options', v4('11', PORTS, { head: '46', options: '01010101' }), { protocol: 17, port: 80 }],
    ['the first fragment', v4('11', PORTS, { flags: '2000' }), { protocol: 17, port: 80 }],
    ['a later fragment, which has no ports', v4('11', PORTS, { flags: '2001' }), { protocol: 17 }],
    ['SCTP', v4('84', PORTS), { protocol: 132, port: 80 }],
    ['GRE, which has no ports', v4('2f', PORTS), { protocol: 47 }],
    ['an ICMP error', v4('01', '0301abcd'), { protocol: 1, icmp: { type: 3, code: 1 } }],
    ['IPv4 that is cut off before the ports', v4('06', 'c0de00'), { protocol: 6 }],
    ['IPv4 options that are cut off', v4('06', '', { head: '4f' }), { protocol: 6 }],
    ['TCP over IPv6', v6('06', PORTS), { protocol: 6, port: 80 }],
    ['a neighbour message', v6('3a', '8700abcd'), { protocol: 58, icmp: { type: 135, code: 0 } }],
    ['IPv6 with two extension headers', v6('00', `3c${NO_OPTIONS}06${NO_OPTIONS}${PORTS}`), { protocol: 6, port: 80 }],
    [
      'a longer extension header',
      v6('3c', `1101${NO_OPTIONS.slice(2)}${NO_OPTIONS}00${PORTS}`),
      { protocol: 17, port: 80 },
    ],
    ['IPv6 with authentication', v6('33', `0604${'00'.repeat(22)}${PORTS}`), { protocol: 6, port: 80 }],
    ['the first fragment over IPv6', v6('2c', `11000001000000aa${PORTS}`), { protocol: 17, port: 80 }],
    ['a later fragment over IPv6', v6('2c', `11000010000000aa${PORTS}`), { protocol: 17 }],
    ['an extension header that is cut off', v6('00', '3c00'), { protocol: 0 }],
    ['an extension header that claims more than there is', v6('00', `06ff${NO_OPTIONS.slice(2)}`), { protocol: 6 }],
  ])('are read of %s', (_, hex, expected) => {
    const headers = readPacketHeaders(Buffer.from(hex, 'hex'));
    const ends = hex.startsWith('6') ? ['2001:db8::1', '2001:db8::2'] : ['192.0.2.1', '192.0.2.2'];
    expect([headers?.source, headers?.destination].map((end) => end && formatAddress(end))).toEqual(ends);
    const { protocol, ports, icmp } = headers ?? {};
    expect({ protocol, port: ports?.destination, icmp }).toEqual({ port: undefined, icmp: undefined, ...expected });
  });

  it.each([
    ['nothing', ''],
    ['another version', `25${v4('06', PORTS).slice(2)}`],
    ['IPv4 without a destination', v4('06', '').slice(0, 36)],
    ['IPv4 with a header that is too short', v4('06', PORTS, { head: '44' })],
    ['IPv6 without a destination', v6('06', '').slice(0, 76)],
  ])('are undefined for %s', (_, hex) => {
    expect(readPacketHeaders(Buffer.from(hex, 'hex'))).toBeUndefined();
  });
});
