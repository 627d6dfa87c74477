import { isNewerVersion } from '../../base/compare-versions.ts';
import { SYSTEM_NAMESPACE } from '../../install/cluster/names.ts';
import type { Manifest } from '../../model/manifest.ts';
import { releaseIn } from '../../model/image-release.ts';
import { imageIn, metadataIn } from './objects-in.ts';

/** Charts before this version create the operator's namespace, and are installed into the default namespace. */
export const OWN_NAMESPACE_FROM = 'v3.23.0';
export const OLD_NAMESPACE = 'default';
export const RELEASE_NAME_ANNOTATION = 'meta.helm.sh/release-name';
export const RELEASE_NAMESPACE_ANNOTATION = 'meta.helm.sh/release-namespace';

/**
 * Returns the namespaces whose records of helm may be those of netplug. An upgrade installs the chart with the values of the record,
 * and any user who may write Secrets in a namespace can write a record there. So the namespace of netplug counts, the one that helm
 * has noted on the operator, and the default namespace as long as an operator from before the move runs.
 */
export function chartNamespaces(operator: Manifest | undefined): readonly string[] {
  const owner = operator && metadataIn(operator).annotations[RELEASE_NAMESPACE_ANNOTATION];
  if (operator === undefined || owner === undefined) return [SYSTEM_NAMESPACE];
  const namespaces = [owner, SYSTEM_NAMESPACE, ...(isFromBeforeMove(operator) ? [OLD_NAMESPACE] : [])];
  return [...new Set(namespaces)].toSorted();
}

function isFromBeforeMove(operator: Manifest): boolean {
  return isNewerVersion(OWN_NAMESPACE_FROM, releaseIn(imageIn(operator)) ?? '');
}
