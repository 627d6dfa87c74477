import { describe, expect, it } from 'vitest';
import { parseAddress } from '../../net/address.ts';
import { createTunnel, decodeTunnel } from './tunnel-messages.ts';

const NO_FLAGS = '00'.repeat(16);

describe('messages that create tunnels', () => {
  it('contain only the local address of an ipip device, because each route names the remote one', () => {
    const fixed = { kind: 'ipip', local: parseAddress('192.0.2.1') } as const;
    const { type, flags, body } = createTunnel({ name: 'ipip0', mtu: 1480 }, fixed);
    // NEWLINK; acknowledge, create, exclusively.
    expect([type, flags]).toEqual([16, 0x604]);
    expect(body.toString('hex')).toBe(
      [
        NO_FLAGS,
        '0a0003006970697030000000',
        '08000400c8050000',
        '1c001280',
        '090001006970697000000000',
        '0c000280',
        '08000200c0000201',
      ].join(''),
    );
  });

  it.each([
    { kind: 'ipip', local: parseAddress('192.0.2.1') } as const,
    ...['192.0.2.1', '2001:db8::1'].map(
      (local) =>
        ({
          kind: 'vxlan',
          vni: 4096,
          port: 4789,
          local: parseAddress(local),
          uplinkIndex: 7,
          isLearning: false,
        }) as const,
    ),
  ])('decode to the tunnel that was encoded, for kind $kind', (fixed) => {
    const { body } = createTunnel({ name: 'tun0', mtu: 1400 }, fixed, '0a:00:00:00:00:01');
    expect(decodeTunnel(body)).toEqual(fixed);
  });
});
