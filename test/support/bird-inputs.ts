// Whatever BIRD may be configured with.
import * as fc from 'fast-check';
import type { BirdInput } from '../../src/bgp/render-bird.ts';
import type { Community, ReadySession } from '../../src/bgp/session.ts';
import { type Address, bitsOf, type Family } from '../../src/net/address.ts';
import { cidrAround } from '../../src/net/cidr.ts';

const optional = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined });
const uint = (max: number): fc.Arbitrary<number> => fc.integer({ min: 0, max });
const positive = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1, max });
const families = fc.constantFrom<Family>(4, 6);
const cidrs = families.chain((family) =>
  fc.tuple(unicast(family), fc.integer({ min: 8, max: bitsOf(family) })).map(([base, bits]) => cidrAround(base, bits)),
);
const communities: fc.Arbitrary<Community> = fc.oneof(
  fc.tuple(uint(65_535), uint(65_535)),
  fc.tuple(uint(4_294_967_295), uint(4_294_967_295), uint(4_294_967_295)),
);
const asNumbers = fc.oneof(fc.constant(64_512), positive(4_294_967_295));

const sessions: fc.Arbitrary<ReadySession> = families.chain((family) =>
  fc
    .record({
      kind: fc.constantFrom('mesh', 'node', 'global'),
      family: fc.constant(family),
      peerNode: optional(fc.string({ unit: 'binary' })),
      peerAddress: unicast(family),
      peerPort: positive(65_535),
      peerAs: asNumbers,
      ownAs: asNumbers,
      listenPort: positive(65_535),
      sourceAddress: optional(unicast(family)),
      reach: fc.constantFrom('direct', 'multihop'),
      isPassive: fc.boolean(),
      reflectorClusterId: optional(unicast(4)),
      announces: fc.constantFrom('own', 'own-and-learned'),
      accepts: fc.constantFrom('pools', 'everything'),
      nextHop: fc.constantFrom('keep', 'self'),
      restartTimeS: positive(4095),
      allowedOwnAs: uint(10),
      ttlSecurityHops: optional(positive(255)),
      bfd: optional(
        fc.record({ intervalMs: fc.integer({ min: 50, max: 10_000 }), multiplier: fc.integer({ min: 2, max: 50 }) }),
      ),
      password: optional(fc.string({ unit: 'binary', maxLength: 100 })),
    })
    .map((session) => ({
      ...session,
      name: `peer_${session.peerAddress.value.toString(16)}_${String(session.peerPort)}`,
      // Planned with a source only.
      bfd: session.sourceAddress === undefined ? undefined : session.bfd,
      // Reflecting is for peers of the same AS, and planned for them only.
      reflectorClusterId: session.ownAs === session.peerAs ? session.reflectorClusterId : undefined,
    })),
);

export const birdInputs: fc.Arbitrary<BirdInput> = fc.record({
  routerId: unicast(4),
  sessions: fc.uniqueArray(sessions, { selector: ({ name }) => name, maxLength: 6 }),
  announcements: fc.array(fc.record({ cidr: cidrs, communities: fc.array(communities, { maxLength: 3 }) })),
  pools: fc.array(cidrs),
  refused: fc.array(cidrs),
  log: fc.record({
    severity: fc.constantFrom('Debug', 'Info', 'Warning', 'Error'),
    file: fc.constant('/dev/null'),
  }),
  podLinkPrefix: fc.constant('npl'),
});

/** Not from the ranges that are for no one host. */
function unicast(family: Family): fc.Arbitrary<Address> {
  const start = family === 4 ? 0x0a000000n : 0xfd00n << 112n;
  return fc.bigInt({ min: 1n, max: 0xfffffen }).map((value) => ({ family, value: start + value }));
}
