import { expect, it } from 'vitest';
import type { Packed } from '../base/packed.ts';
import { fromKubernetesPolicy } from '../model/from-kubernetes/network-policy.ts';
import { packedObject, wholeObject } from './packed-object.ts';

const policyWith = (count: number): Parameters<typeof packedObject>[0] => {
  const ports = Array.from({ length: count }, (_, index) => ({ protocol: 'TCP', port: 2 * index + 1 }));
  return { metadata: { name: 'big', namespace: 'dev' }, spec: { podSelector: {}, ingress: [{ ports }] } };
};

it('leaves a small object as it is', () => {
  const small = policyWith(10);
  expect(packedObject(small)).toBe(small);
  expect(wholeObject(small)).toEqual(small);
});

it('keeps the metadata of a large object, and a tenth of its text', () => {
  const large = policyWith(32_767);
  const packed = packedObject(large);
  expect(Object.keys(packed)).toEqual(['metadata', 'packed']);
  expect((packed['packed'] as Packed<unknown>).bytes.length).toBeLessThan(JSON.stringify(large).length / 10);
  expect(packedObject(packed)).toBe(packed);
  expect(packedObject(policyWith(32_767))).toEqual(packed);
  expect(packedObject(policyWith(32_766))).not.toEqual(packed);
});

it('gives back everything of a packed object, also foreign keys', () => {
  const { spec, ...rest } = policyWith(32_767);
  const foreign = JSON.parse('{"__proto__": {"constructor": 1}, "packed": "x"}') as object;
  const large = { ...rest, spec: { ...(spec as object), ...foreign } };
  expect(wholeObject(packedObject(large))).toEqual(large);
  expect(fromKubernetesPolicy(wholeObject(packedObject(policyWith(9000))))).toEqual(
    fromKubernetesPolicy(policyWith(9000)),
  );
});

it('takes a value of the name under which it keeps the rest for what it is', () => {
  const own = { metadata: { name: 'a' }, packed: { bytes: [1] } };
  expect(wholeObject(own)).toEqual(own);
});
