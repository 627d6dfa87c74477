import { expect, it } from 'vitest';
import { memoryNode } from '../../test/support/memory-node.ts';
import type { PodIsolation } from './pod-isolation.ts';

it('releases the endpoint of a pod whose link cannot be created', async () => {
  const node = await memoryNode();
  const endpoints = new Set<string>();
  const isolation: PodIsolation = {
    isOn: true,
    isolate: async ({ metadata }) => {
      endpoints.add(metadata.name);
      return Promise.resolve({ state: 'in force' });
    },
    release: async ({ metadata }) => {
      endpoints.delete(metadata.name);
      return Promise.resolve();
    },
    collect: async () => Promise.resolve(),
    findObstacle: async () => Promise.resolve(undefined),
  };
  node.kernel.failAt('create-link');
  expect(await node.call('ADD', { isolation })).not.toMatchObject({ status: 0 });
  expect(endpoints.size).toBe(0);
  expect(await node.call('ADD', { isolation })).toMatchObject({ status: 0 });
  expect(endpoints.size).toBe(1);
});
