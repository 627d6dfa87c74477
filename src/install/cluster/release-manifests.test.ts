import { describe, expect, it } from 'vitest';
import { VERSION } from '../../base/version.ts';
import { releaseFiles } from './release-manifests.ts';

const REVIEWED =
  /---\napiVersion: \S+\nkind: (CustomResourceDefinition|ValidatingAdmissionPolicy(?:Binding)?)\nmetadata:\n {2}name: (\S+)\n[^]*?(?=(?:#.*\n)*---\n|$)/g;
/** Definitions and policies are in manifests/crds.yaml, admission.yaml and node-restriction.yaml. */
const withoutReviewed = (text: string): string => text.replace(REVIEWED, '---\n# $1 $2\n');

describe('the manifests of a release', () => {
  const files = releaseFiles(VERSION);

  it('are a fixed set', () => {
    expect(Object.keys(files)).toEqual([
      'netplug.yaml',
      'netplug-second-plugin.yaml',
      'netplug-policy-only.yaml',
      'netplug-kvv3.yaml',
      'netplug-kvv3-second-plugin.yaml',
      'netplug-typha.yaml',
      'netplug-operator.yaml',
      'netplug-crds.yaml',
    ]);
  });

  it('are the same each time', () => {
    expect(releaseFiles(VERSION)).toEqual(files);
  });

  it.each(Object.entries(files))('have the reviewed content: %s', async (file, text) => {
    await expect(withoutReviewed(text)).toMatchFileSnapshot(`../../../test/golden/manifests/${file}`);
  });
});
