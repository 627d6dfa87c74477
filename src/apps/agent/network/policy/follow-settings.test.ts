import { expect, it } from 'vitest';
import { systemClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { systemRandom } from '../../../../base/random.ts';
import { MemoryDatabase } from '../../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../../datastore/memory/memory-store.ts';
import { nodeName } from '../../../../../test/support/fixtures.ts';
import { SettingsFollower } from './follow-settings.ts';
import { PATIENCE_MS } from '../../../../../test/support/until.ts';

const never = new AbortController().signal;

type Ports = ConstructorParameters<typeof SettingsFollower>[0];

function followerOf(store: Ports['store'], onChange: Ports['onChange']): SettingsFollower {
  const base = { clock: systemClock, random: systemRandom, log: silentLog, env: {}, node: nodeName('a') };
  return new SettingsFollower({ ...base, store, onChange });
}

it('follows the configuration of its node and the default one', async () => {
  await using store = openMemoryStore(new MemoryDatabase());
  const prefixes: string[] = [];
  const follower = followerOf(store, ({ policyLogPrefix }) => prefixes.push(policyLogPrefix));
  const configured = (name: string, policyLogPrefix: string): Parameters<typeof store.createResource>[0] => ({
    apiVersion: 'netplug.io/v3',
    kind: 'AgentConfiguration',
    metadata: { name },
    spec: { policyLogPrefix },
  });
  await store.createResource(configured('default', 'all'), never);
  const stop = new AbortController();
  const running = follower.run(stop.signal);
  await follower.read;
  expect(prefixes).toEqual(['all']);
  await store.createResource(configured('node.b', 'other'), never);
  await store.createResource(configured('node.a', 'own'), never);
  await expect.poll(() => prefixes, { timeout: PATIENCE_MS }).toEqual(['all', 'own']);
  await store.deleteResource({ kind: 'AgentConfiguration', name: 'node.a' }, never);
  await expect.poll(() => prefixes, { timeout: PATIENCE_MS }).toEqual(['all', 'own', 'all']);
  stop.abort();
  await running;
});

it('keeps the last settings of a record that becomes unreadable, reports it, and waits for those that it never read', async () => {
  const database = new MemoryDatabase();
  await using store = openMemoryStore(database);
  const ports: (number | undefined)[] = [];
  const follower = followerOf(store, ({ failsafeInboundHostPorts: [first] }) => ports.push(first?.port));
  const own = { kind: 'AgentConfiguration', name: 'node.a' } as const;
  database.damage(own);
  database.damage({ kind: 'AgentConfiguration', name: 'node.b' });
  const stop = new AbortController();
  const running = follower.run(stop.signal);
  await expect
    .poll(() => follower.problems(), { timeout: PATIENCE_MS })
    .toEqual([expect.stringMatching(/node\.a.*its settings are unknown$/)]);
  expect(follower.isRead).toBe(false);
  database.putResource(own, {
    apiVersion: 'netplug.io/v3',
    kind: 'AgentConfiguration',
    metadata: { name: own.name },
    spec: { failsafeInboundHostPorts: [{ protocol: 'TCP', port: 2222 }] },
  });
  await follower.read;
  expect([ports, follower.problems(), follower.isRead]).toEqual([[2222], [], true]);
  database.damage(own);
  await expect
    .poll(() => follower.problems(), { timeout: PATIENCE_MS })
    .toEqual([expect.stringMatching(/its last readable settings apply$/)]);
  expect(ports).toEqual([2222]);
  database.putResource(own, undefined);
  await expect.poll(() => ports, { timeout: PATIENCE_MS }).toEqual([2222, 22]);
  expect(follower.problems()).toEqual([]);
  stop.abort();
  await running;
});
