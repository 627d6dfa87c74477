import { globSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { TOUCHES, touched } from '../../test/touches.ts';

describe('what a change touches', () => {
  it('has end-to-end tests for every folder of src', () => {
    const folders = globSync('src/*/').map((folder) => folder.replace(/\/$/, ''));
    const isCovered = (folder: string): boolean =>
      Object.keys(TOUCHES).some((each) => each === folder || each.startsWith(`${folder}/`));
    expect(folders.filter((folder) => !isCovered(folder))).toEqual([]);
  });

  it.each(Object.entries(TOUCHES))('names a folder and tests that exist: %s', (folder, patterns) => {
    expect(globSync(folder)).toEqual([folder]);
    expect(patterns.filter((pattern) => globSync(`test/e2e/${pattern}.test.ts`).length === 0)).toEqual([]);
  });

  it('takes the tests of the innermost folder, each once, and a changed end-to-end test itself', () => {
    const changed = [
      'src/apps/ctl/doctor/topic.ts',
      'src/apps/ctl/doctor/render.ts',
      'test/e2e/cni.test.ts',
      'src/net/address.test.ts',
      'README.md',
    ];
    expect(touched(changed)).toEqual(['ctl-doctor', 'ctl-diags', 'tasks', 'cni']);
  });
});
