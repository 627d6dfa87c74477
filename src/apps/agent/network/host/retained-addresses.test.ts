import { expect, it } from 'vitest';
import type { Family } from '../../../../net/address.ts';
import { formatAddress, parseAddress } from '../../../../net/address.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import { HOLD_MS, RetainedAddresses } from './retained-addresses.ts';

const STEP_MS = HOLD_MS / 2;

/** Finds each text in turn, with half of the time for which an address is held between them; the record of the node has `recorded`. */
function after(
  found: readonly (string | undefined)[],
  recorded?: string,
): { readonly published: readonly string[]; readonly replaced: string } {
  const own = new RetainedAddresses();
  const published = found.map((text, index) => {
    // The record loses what the node publishes no more.
    const record = index === 0 && recorded !== undefined ? [[4, parseAddress(recorded)] as const] : [];
    const addresses = text === undefined ? new Map() : addressOf(text);
    own.set(own.with({ addresses, published: new Map(record) }, index * STEP_MS));
    return [...own.addresses.values()].map(({ address }) => formatAddress(address)).join();
  });
  return { published, replaced: [...own.replaced.values()].map(formatAddress).join() };
}

function addressOf(text: string): ReadonlyMap<Family, OwnAddress> {
  const [address = '', bits] = text.split('/');
  return new Map([[4, { address: parseAddress(address), prefixBits: Number(bits), device: 'eth0', mtu: 1500 }]]);
}

it.each<[what: string, found: (string | undefined)[], published: string[], replaced: string]>([
  [
    'keeps an address that is missing for 30 s',
    ['192.0.2.1/24', undefined, undefined, undefined],
    ['192.0.2.1', '192.0.2.1', '192.0.2.1', ''],
    '192.0.2.1',
  ],
  [
    'changes to another one with a network at once',
    ['192.0.2.1/24', '192.0.2.7/24'],
    ['192.0.2.1', '192.0.2.7'],
    '192.0.2.1',
  ],
  [
    'changes to one without a network after 30 s, and back at once',
    ['192.0.2.1/24', '192.0.2.100/32', '192.0.2.100/32', '192.0.2.100/32', '192.0.2.1/24'],
    ['192.0.2.1', '192.0.2.1', '192.0.2.1', '192.0.2.100', '192.0.2.1'],
    '',
  ],
  [
    'counts the time anew once the address was back',
    ['192.0.2.1/24', '192.0.2.100/32', '192.0.2.1/24', '192.0.2.100/32', '192.0.2.100/32'],
    Array(5).fill('192.0.2.1'),
    '',
  ],
])('%s', (_what, found, published, replaced) => {
  expect(after(found)).toEqual({ published, replaced });
});

it.each<[what: string, found: (string | undefined)[], published: string[], replaced: string]>([
  [
    'takes one without a network after 30 s, and the recorded one when it is back',
    ['192.0.2.100/32', '192.0.2.100/32', '192.0.2.100/32', '192.0.2.1/24'],
    ['', '', '192.0.2.100', '192.0.2.1'],
    '',
  ],
  ['takes another one with a network at once', ['192.0.2.7/24'], ['192.0.2.7'], '192.0.2.1'],
  ['takes the recorded one at once', ['192.0.2.1/32'], ['192.0.2.1'], ''],
])('at a start beside a record: %s', (_what, found, published, replaced) => {
  expect(after(found, '192.0.2.1')).toEqual({ published, replaced });
});
