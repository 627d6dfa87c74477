import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isNetplugError } from '../../src/base/errors.ts';
import { annotationKey, endpointTexts, packEndpoint, readEndpoints } from '../../src/datastore/orch/pod-endpoints.ts';
import { Unreadable } from '../../src/datastore/orch/unreadable.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { tryReadCidr } from '../../src/net/cidr.ts';
import { ANNOTATIONS, decodeAnnotations, inspectAnnotations } from '../../src/config/annotations.ts';
import { BANDWIDTH_ANNOTATIONS, decodeBandwidth } from '../../src/config/bandwidth.ts';
import type { ApiObject } from '../../src/kube/objects.ts';
import { fuzz, HANG_MS, mustEqual } from './driver.ts';
import { byteMutants, jsonMutants, oddValue } from './mutants.ts';
import { ENDPOINT } from './samples.ts';

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

const NOTE = 'cni.netplug/endpoint.eth0';
const PACKED: unknown = JSON.parse(packEndpoint(ENDPOINT, 'id'));

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

  it(
    'of an endpoint are read into one whose fields hold, or said to be unreadable',
    () => {
      const notes = fc.oneof(
        jsonMutants([PACKED]).map((value) => JSON.stringify(value) ?? ''),
        byteMutants(fc.constant(Buffer.from(JSON.stringify(PACKED)))).map((bytes) => bytes.toString('utf8')),
      );
      const keys = fc.oneof(
        fc.constant(NOTE),
        fc.string().map((name) => `cni.netplug/endpoint.${name}`),
      );
      const count = fuzz(fc.dictionary(keys, notes, { noNullPrototype: true }), 0.5, (written) => {
        const pod: ApiObject = {
          metadata: { name: 'web', namespace: 'shop', uid: 'u1', annotations: written },
          spec: { nodeName: 'n1' },
        };
        const read = readEndpoints(pod);
        mustEqual(read.length, endpointTexts(pod).length);
        for (const each of read) {
          if (each instanceof Unreadable) continue;
          const { value } = each;
          for (const network of value.spec.ipNetworks) mustEqual(tryReadCidr(network)?.hostBits, false);
          const again = {
            ...pod,
            metadata: {
              ...pod.metadata,
              annotations: { [annotationKey(value.spec.endpoint)]: packEndpoint(value, 'id') },
            },
          };
          mustEqual(
            readEndpoints(again).map((found) => (found instanceof Unreadable ? found : found.value)),
            [value],
          );
        }
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
