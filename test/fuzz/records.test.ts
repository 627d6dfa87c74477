import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockObject, readBlock, readRouting } from '../../src/datastore/orch/block-objects.ts';
import { endpointObject, readEndpoint } from '../../src/datastore/orch/endpoint-objects.ts';
import { Unreadable } from '../../src/datastore/unreadable.ts';
import type { KeyValue } from '../../proto/gen/etcd.ts';
import { Keys } from '../../src/datastore/kv/keys.ts';
import { blockReader, endpointReader, readClaim, resourceReader } from '../../src/datastore/kv/records.ts';
import { decodeResource, decodeStoredResource } from '../../src/model/decode-resource.ts';
import { decodeBlock, encodeBlock } from '../../src/model/ip-block-codec.ts';
import { blockFaults } from '../../src/model/ip-block.ts';
import { KIND_NAMES } from '../../src/model/kinds.ts';
import { resourceIdOf } from '../../src/model/resource-id.ts';
import { endpointIdOf } from '../../src/model/workload-endpoint.ts';
import { type ApiObject, readObject } from '../../src/kube/objects.ts';
import { fuzz, HANG_MS, mustEqual } from './driver.ts';
import { byteMutants, jsonMutants } from './mutants.ts';
import { ENDPOINT, RESOURCES, sampleBlocks } from './samples.ts';

const BLOCKS = sampleBlocks().map(encodeBlock);
const keys = new Keys();

describe('stored records', () => {
  it(
    'become blocks without a fault that encode to the same, or problems',
    () => {
      const count = fuzz(jsonMutants(BLOCKS), 0.3, (raw) => {
        const decoded = decodeBlock(raw);
        if ('problems' in decoded) return mustEqual(decoded.problems.length > 0, true);
        mustEqual(blockFaults(decoded.block), []);
        mustEqual(decodeBlock(JSON.parse(JSON.stringify(encodeBlock(decoded.block)))), decoded);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'become resources that are read again as the same, or problems',
    () => {
      const count = fuzz(jsonMutants(RESOURCES), 0.3, (raw) => {
        const written = decodeResource(raw);
        if ('problems' in written) mustEqual(written.problems.length > 0, true);
        else mustEqual(decodeResource(JSON.parse(JSON.stringify(written.resource))), written);
        const stored = decodeStoredResource(raw);
        if (typeof stored === 'string') mustEqual(stored === '', false);
        else mustEqual(decodeStoredResource(JSON.parse(JSON.stringify(stored))), stored);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'of etcd are understood or named, whatever key and value are',
    () => {
      const records = [
        ...sampleBlocks().map((block) => [keys.block(block.cidr, block.node), encodeBlock(block)] as const),
        [keys.endpoint(endpointIdOf(ENDPOINT)), ENDPOINT] as const,
        ...RESOURCES.map((raw) => decodeStoredResource(raw)).flatMap((resource) =>
          typeof resource === 'string' ? [] : [[keys.resource(resourceIdOf(resource)), resource] as const],
        ),
      ].map(([key, value]) => ({ key: Buffer.from(key), value: Buffer.from(JSON.stringify(value)) }));
      const original = fc.constantFrom(...records);
      const kvs = fc.oneof(
        fc.tuple(original, byteMutants(original.map(({ value }) => value))).map(([{ key }, value]) => ({ key, value })),
        fc.tuple(original, byteMutants(original.map(({ key }) => key))).map(([{ value }, key]) => ({ key, value })),
        original.chain(({ key, value }) =>
          jsonMutants([JSON.parse(value.toString('utf8'))]).map((mutant) => ({
            key,
            value: Buffer.from(JSON.stringify(mutant) ?? ''),
          })),
        ),
      );
      const count = fuzz(fc.tuple(kvs, fc.constantFrom(...KIND_NAMES)), 0.2, ([{ key, value }, kind]) => {
        // The fields that readers use.
        const kv = { key, value, modRevision: 7n } as unknown as KeyValue;
        const block = blockReader(keys)(kv);
        if (!(block instanceof Unreadable)) mustEqual(blockFaults(block.value), []);
        for (const read of [endpointReader(keys)(kv), resourceReader(keys, kind)(kv), readClaim(kv)]) {
          if (read instanceof Unreadable) mustEqual(read.problem.startsWith('Cannot understand the record'), true);
        }
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'of the API of the orchestrator become blocks, routes and endpoints, or problems',
    () => {
      const version = { uid: 'u', resourceVersion: '7' };
      const blocks = sampleBlocks().map((block): unknown => blockObject(block, version));
      const objects = [...blocks, endpointObject(ENDPOINT, version)];
      const count = fuzz(jsonMutants(objects), 0.2, (raw) => {
        const { labels, annotations } = readObject(raw)?.metadata ?? {};
        const written = (raw as { metadata?: { labels?: object; annotations?: object } } | null)?.metadata;
        for (const [read, from] of [
          [labels, written?.labels],
          [annotations, written?.annotations],
        ])
          if (read !== undefined && read !== null) mustEqual(Object.keys(read), Object.keys(from ?? {}));
        const object = raw as ApiObject;
        // The client hands out objects with a name only.
        if (typeof object?.metadata?.name !== 'string') return;
        const block = readBlock(object);
        if (!(block instanceof Unreadable)) mustEqual(blockFaults(block.value), []);
        readRouting(object);
        const endpoint = readEndpoint(object);
        if (endpoint instanceof Unreadable) return;
        const again: ApiObject = { ...object, spec: endpointObject(endpoint.value).spec };
        mustEqual(readEndpoint(again), endpoint);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );
});
