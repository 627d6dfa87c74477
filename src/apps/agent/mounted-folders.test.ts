import { expect, it } from 'vitest';
import { replacedFolder } from '../../install/conflist-faults.ts';
import type { NodeProblem } from '../../model/node-report.ts';
import { MountedFolders } from './mounted-folders.ts';

const STALE = [replacedFolder('/var/snap/microk8s/current/args/cni-network')];

/** Looks once for each state, and returns how often a restart was asked for. */
async function restarts(...states: readonly (readonly NodeProblem[] | undefined)[]): Promise<number> {
  const left = [...states];
  let count = 0;
  const folders = new MountedFolders({
    find: async () => Promise.resolve(left.shift()),
    onReplaced: () => (count += 1),
  });
  for (const state of states) expect(await folders.look()).toEqual(state ?? []);
  return count;
}

it('asks for one restart when folders that were right are others at two looks', async () => {
  expect(await restarts([], STALE)).toBe(0);
  expect(await restarts([], STALE, undefined, STALE, STALE, STALE)).toBe(1);
  expect(await restarts([], STALE, [], STALE)).toBe(0);
});

it('only reports folders that were never right, which a restart would not change', async () => {
  expect(await restarts(STALE, STALE, STALE)).toBe(0);
  expect(await restarts(undefined, STALE, STALE)).toBe(0);
});
