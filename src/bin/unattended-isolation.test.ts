import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { MemoryPolicyFilter } from '../../test/support/memory/memory-policy-filter.ts';
import type { FilterTable, PolicyFilter } from '../dataplane/policy-filter.ts';
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
    const openFilter = (): Pick<PolicyFilter, 'create' | 'remove'> & Disposable => ({
      create: async (table, signal) => {
        if (isSwitchedOff) rmSync(policyMarker(env));
        return filter.create(table, signal);
      },
      remove: async (table, signal) => filter.remove(table, signal),
      [Symbol.dispose]: () => undefined,
    });
    const isolation = unattendedIsolation(env, { openFilter });
    expect(await isolation.isolate(endpointOf('pod', 'npl1'), never)).toMatchObject({ state });
    expect(tables.size).toBe(left);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
