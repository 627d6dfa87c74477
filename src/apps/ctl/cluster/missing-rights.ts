import type { Manifest } from '../../../model/manifest.ts';
import { isAllowed, type ResourceAttributes } from '../../../kube/access-review.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { collectionHolding, referenceOf } from '../../../kube/objects/reference.ts';

/** A right that the steps of a command need. */
export type NeededRight = Omit<ResourceAttributes, 'subresource'>;

/** Returns the rights to write and delete these objects. */
export function rightsForObjects(objects: readonly Manifest[], verbs: readonly string[]): readonly NeededRight[] {
  const rights = objects.flatMap((object) => {
    const { group, plural: resource, namespace } = collectionHolding(referenceOf(object));
    return verbs.map((verb) => ({ verb, group, resource, ...(namespace === undefined ? {} : { namespace }) }));
  });
  return [...new Map(rights.map((right) => [JSON.stringify(right), right])).values()];
}

/** Returns those of the rights that the caller lacks, as text. */
export async function findMissingRights(
  api: OrchApi,
  rights: readonly NeededRight[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const answers = await Promise.all(
    rights.map(async (right) => ((await isAllowed(api, right, signal)) ? [] : [describe(right)])),
  );
  return answers.flat();
}

function describe({ verb, group, resource, namespace }: NeededRight): string {
  return `${verb} ${resource}${group === '' ? '' : `.${group}`}${namespace === undefined ? '' : ` in namespace ${namespace}`}`;
}
