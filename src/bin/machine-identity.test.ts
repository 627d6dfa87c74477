import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { isSameMachine } from '../ipam/node/name-claim.ts';
import { machineIdentityIn } from './machine-identity.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'npl-machine-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = (state: string, run: string): ReturnType<typeof machineIdentityIn> => {
  // What proves the machine of this test proves it for every folder.
  const { hardware: _, ...identity } = machineIdentityIn({
    NETPLUG_STATE_DIR: join(folder, state),
    NETPLUG_RUN_DIR: join(folder, run),
  });
  return identity;
};

it('tells a machine by what lasts until its next boot, and not by what an image contains', async () => {
  const first = at('state', 'run');
  expect(at('state', 'run')).toEqual(first);
  expect(isSameMachine(at('state', 'another-run'), first)).toBe(true);
  expect(isSameMachine(at('new-state', 'run'), first)).toBe(true);
  await cp(join(folder, 'state'), join(folder, 'copy'), { recursive: true });
  const copy = at('copy', 'third-run');
  expect(copy.id).toBe(first.id);
  expect(isSameMachine(copy, first)).toBe(false);
});
