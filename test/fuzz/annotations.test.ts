import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isNetplugError } from '../../src/base/errors.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { ANNOTATIONS, BANDWIDTH_ANNOTATIONS } from '../../src/model/annotation-keys.ts';
import { decodeAnnotations, inspectAnnotations } from '../../src/config/annotations.ts';
import { decodeBandwidth } from '../../src/config/bandwidth.ts';
import { fuzz, HANG_MS, mustEqual } from './driver.ts';
import { byteMutants, oddValue } from './mutants.ts';

const KEYS = [
  ...Object.values(ANNOTATIONS.pools),
  ANNOTATIONS.ipAddrs,
  ANNOTATIONS.ipAddrsNoIpam,
  ANNOTATIONS.floatingIPs,
  ...Object.values(BANDWIDTH_ANNOTATIONS),
];
const TEXTS = ['["10.0.0.1"]', '["10.0.0.1","fd00::1"]', '["blue","10.0.0.0/16"]', '[]', '10M', '1.5Gi', '1e3k'];
const texts = fc.oneof(
  fc.constantFrom(...TEXTS),
  byteMutants(fc.constantFrom(...TEXTS).map((text) => Buffer.from(text))).map((bytes) => bytes.toString('utf8')),
  oddValue.map((value) => JSON.stringify(value) ?? ''),
  fc.string({ unit: 'binary' }),
);
const annotations = fc.dictionary(fc.oneof(fc.constantFrom(...KEYS), fc.string()), texts, { noNullPrototype: true });
const features = fc.record({ ipAddrsNoIpam: fc.boolean(), floatingIps: fc.boolean() });

describe('annotations', () => {
  it(
    'are accepted as the rules say, or refused as annotation/invalid',
    () => {
      const count = fuzz(fc.tuple(annotations, annotations, features), 0.5, ([own, inherited, switches]) => {
        const pod = {
          namespace: 'shop',
          name: 'web',
          uid: 'u1',
          annotations: own,
          namespaceAnnotations: inherited,
          labels: {},
          serviceAccount: 'default',
          ports: [],
        };
        const { requests, faults } = inspectAnnotations(pod, switches);
        const decoded = attempt(() => decodeAnnotations(pod, switches));
        mustEqual(decoded === undefined, faults.length > 0);
        attempt(() => decodeBandwidth(pod));
        if (faults.length > 0) return;
        const addresses = requests.addresses?.addresses ?? [];
        for (const address of [...addresses, ...requests.floatingIps]) {
          mustEqual(parseAddress(formatAddress(address)), address);
        }
        mustEqual(new Set(addresses.map(({ family }) => family)).size, addresses.length);
        if (!switches.floatingIps) mustEqual(requests.floatingIps, []);
        if (!switches.ipAddrsNoIpam) mustEqual(requests.addresses?.via === 'bypass', false);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );
});

function attempt<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch (cause) {
    if (isNetplugError(cause, 'annotation/invalid')) return undefined;
    throw cause;
  }
}
