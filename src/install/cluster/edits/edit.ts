import { showFound } from '../../../base/problem.ts';
import { type Difference, differenceLine } from '../../../kube/objects/diff.ts';

/** A difference in one object between an earlier manifest and that of its release. The path of the object as a whole is empty. */
export interface ManifestEdit extends Difference {
  /** Key of the object. */
  readonly object: string;
}

/** Returns the line about the edit for its user. Values of Secrets are not shown. */
export function editLine({ object, ...difference }: ManifestEdit): string {
  if (difference.path.length === 0) return `${object}: ${difference.is === undefined ? 'removed' : 'added'}`;
  return `${object}: ${differenceLine(difference, object.startsWith('Secret ') ? () => '(not shown)' : showFound)}`;
}
