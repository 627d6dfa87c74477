import { expect, it } from 'vitest';
import type { Datastore } from '../config/connection.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { fromNamespace } from '../model/from-kubernetes/profiles.ts';
import { missingControllers, policySettingIn } from './policy-setting.ts';

const never = new AbortController().signal;
const KV: Pick<Datastore, 'type'> = { type: 'kvv3' };

it.each([
  [{}, { isOn: false, start: 'on demand' }],
  [{ NETPLUG_INTERFACE_PREFIX: 'eni' }, { isOn: true, start: 'enforce' }],
  [
    { NETPLUG_INTERFACE_PREFIX: 'eni', NETPLUG_POLICY: 'off' },
    { isOn: false, start: 'remove' },
  ],
])('policies are on from the start for pods of another plugin, unless they are off: %j', (env, expected) => {
  expect(policySettingIn({ NETPLUG_STATE_DIR: '/nonexistent', ...env })).toMatchObject(expected);
});

it('controllers are missing where none leads and none has made the profile of the namespace "default"', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const led = { findResource: store.findResource.bind(store), findLeader: async () => Promise.resolve('one') };
  expect(await missingControllers(KV, store, never)).toContain('no netplug-orch-controllers run');
  expect(await missingControllers(KV, led, never)).toBeUndefined();
  expect(await missingControllers({ type: 'orch' }, store, never)).toBeUndefined();
  await store.createResource(fromNamespace({ metadata: { name: 'default' } }), never);
  expect(await missingControllers(KV, store, never)).toBeUndefined();
});
