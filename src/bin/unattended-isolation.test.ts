import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { MemoryPolicyFilter } from '../../test/support/memory/memory-policy-filter.ts';
import type { FilterSet, FilterTable, PolicyFilter } from '../dataplane/policy-filter.ts';
import { formatAddress, parseAddress } from '../net/address.ts';
import { POLICY_TABLE } from '../policy/ruleset/policy-ruleset.ts';
import { endpointOf, never } from '../../test/support/enforcement-host.ts';
import { policyMarker } from './registration.ts';
import { unattendedIsolation } from './unattended-isolation.ts';

it.each([
  { when: 'while the node remembers policies', isSwitchedOff: false, tables: 1, state: 'closed' },
  { when: 'unless they are switched off meanwhile', isSwitchedOff: true, tables: 0, state: 'not enforced' },
])('closes pods without an agent $when', async ({ isSwitchedOff, tables: left, state }) => {
  const folder = mkdtempSync(join(tmpdir(), 'netplug-isolation-'));
  try {
    const env = { NETPLUG_STATE_DIR: folder };
    writeFileSync(policyMarker(env), '');
    const tables = new Map<string, FilterTable>();
    const filter = new MemoryPolicyFilter(tables);
    const openFilter = (): Pick<PolicyFilter, 'create' | 'remove' | 'withdraw'> & Disposable => ({
      create: async (table, signal) => {
        if (isSwitchedOff) rmSync(policyMarker(env));
        return filter.create(table, signal);
      },
      remove: async (table, signal) => filter.remove(table, signal),
      withdraw: async (table, left, signal) => filter.withdraw(table, left, signal),
      [Symbol.dispose]: () => undefined,
    });
    const isolation = unattendedIsolation(env, { openFilter });
    expect(await isolation.isolate(endpointOf('pod', 'npl1'), never)).toMatchObject({ state });
    expect(tables.size).toBe(left);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('takes a removed pod out of the policies of the kernel, and ends the flows of its addresses', async () => {
  const tables = new Map<string, FilterTable>();
  const filter = new MemoryPolicyFilter(tables);
  const sets = new Map<string, FilterSet>([
    [
      'to-pods',
      {
        kind: 'interfaces',
        elements: new Map([
          ['npl1', 'old'],
          ['npl2', 'kept'],
        ]),
      },
    ],
    ['addresses', { kind: 'addresses', family: 4, elements: new Set(['10.0.0.1', '10.0.0.2']) }],
    ['services', { kind: 'services', family: 6, elements: new Set(['fd00::1 6 80', 'fd00::11 6 80']) }],
  ]);
  await filter.apply({ name: POLICY_TABLE, chains: new Map(), sets }, { signal: never });
  const ended: string[] = [];
  const isolation = unattendedIsolation(
    { NETPLUG_STATE_DIR: tmpdir() },
    {
      openFilter: () => ({
        create: async () => Promise.resolve(false),
        remove: async () => Promise.resolve(),
        withdraw: async (table, left, signal) => filter.withdraw(table, left, signal),
        [Symbol.dispose]: () => undefined,
      }),
      openFlowTable: () => ({
        endAll: async (addresses) => Promise.resolve(void ended.push(...addresses.map(formatAddress))),
        [Symbol.dispose]: () => undefined,
      }),
    },
  );
  const addresses = ['10.0.0.1', 'fd00::1'].map(parseAddress);
  const left = { interfaces: ['npl1'], addresses, flowsOf: addresses };
  expect(await isolation.release(endpointOf('pod', 'npl1'), never)).toBe(false);
  await isolation.withdraw(left, never);
  expect(ended).toEqual(['10.0.0.1', 'fd00::1']);
  const found = [...(tables.get(POLICY_TABLE)?.sets ?? [])].map(([name, { elements }]) => [name, [...elements.keys()]]);
  expect(Object.fromEntries(found)).toEqual({
    'to-pods': ['npl2'],
    addresses: ['10.0.0.2'],
    services: ['fd00::11 6 80'],
  });
});
