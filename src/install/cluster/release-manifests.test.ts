import { describe, expect, it } from 'vitest';
import { VERSION } from '../../base/version.ts';
import { releaseFiles } from './release-manifests.ts';

const CRD =
  /---\napiVersion: apiextensions\.k8s\.io\/v1\nkind: CustomResourceDefinition\nmetadata:\n {2}name: (\S+)\n[^]*?(?=---\n|$)/g;
/** Definitions are in manifests/crds.yaml. */
const withoutDefinitions = (text: string): string => text.replace(CRD, '---\n# CustomResourceDefinition $1\n');

describe('the manifests of a release', () => {
  const files = releaseFiles(VERSION);

  it('are a fixed set', () => {
    expect(Object.keys(files)).toEqual([
      'netplug.yaml',
      'netplug-second-plugin.yaml',
      'netplug-policy-only.yaml',
      'netplug-kvv3.yaml',
      'netplug-kvv3-second-plugin.yaml',
      'netplug-operator.yaml',
      'netplug-crds.yaml',
    ]);
  });

  it('are the same each time', () => {
    expect(releaseFiles(VERSION)).toEqual(files);
  });

  it.each(Object.entries(files))('have the reviewed content: %s', async (file, text) => {
    await expect(withoutDefinitions(text)).toMatchFileSnapshot(`../../../test/golden/manifests/${file}`);
  });
});
