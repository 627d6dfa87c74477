import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { registerName } from '../apps/agent/register-node.ts';
import type { NodeName } from '../model/names.ts';
import { readConfDir } from './registration.ts';

let stateDir: string;
beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'netplug-state-'));
});
afterEach(async () => rm(stateDir, { recursive: true, force: true }));

it('the plugin finds network configurations where the agent registered them, unless its own variable says where', async () => {
  const env = { NETPLUG_STATE_DIR: stateDir };
  expect(readConfDir(env)).toBe('/etc/cni/net.d');
  await registerName({ stateDir, confDir: '/var/lib/runtime/net.d' }, 'node-a' as NodeName);
  expect(readConfDir(env)).toBe('/var/lib/runtime/net.d');
  expect(readConfDir({ ...env, NETPLUG_CNI_CONF_DIR: '/other' })).toBe('/other');
  await writeFile(join(stateDir, 'cni-conf-dir'), '');
  expect(readConfDir(env)).toBe('/etc/cni/net.d');
});
