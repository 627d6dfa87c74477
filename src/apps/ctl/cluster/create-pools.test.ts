import { describe, expect, it } from 'vitest';
import { poolOf } from '../../../../test/support/fixtures.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { missingPools } from './create-pools.ts';

const never = new AbortController().signal;
const WANTED = poolOf('default-ipv4', '10.244.0.0/16');

describe('missingPools', () => {
  it('returns the pools of which etcd has none of the same range', async () => {
    const store = openMemoryStore();
    const other = poolOf('other', '10.1.0.0/16');
    await store.createResource(poolOf('mine', '10.1.0.0/16'), never);
    expect(await missingPools(store, [WANTED, other], never)).toEqual([WANTED]);
  });

  it.each([
    ['of its name with another CIDR', 'default-ipv4', '10.5.0.0/16', 'another CIDR, "default-ipv4" (10.5.0.0/16)'],
    ['that overlaps it', 'mine', '10.244.9.0/24', 'overlaps a pool, "mine" (10.244.9.0/24)'],
  ])('refuses a pool beside one %s, before any is created', async (_, name, cidr, says) => {
    const store = openMemoryStore();
    await store.createResource(poolOf(name, cidr), never);
    await expect(missingPools(store, [WANTED], never)).rejects.toMatchObject({
      code: 'install/refused',
      message: expect.stringContaining(says) as unknown,
    });
  });
});
