import { ownValue } from '../../base/own-value.ts';
import { listIn, recordIn, textIn } from './objects-in.ts';
import type { NodeState } from '../../kube/status/node-state.ts';

type Requirement = Readonly<Record<string, unknown>>;

/**
 * Reports whether a pod may be scheduled to the node by its required node affinity, as kube-scheduler decides: one of the
 * terms must match, with all of its expressions and fields; an empty term matches no node.
 */
export function fitsAffinity(
  podSpec: Readonly<Record<string, unknown>>,
  { name, labels }: Pick<NodeState, 'name' | 'labels'>,
): boolean {
  const affinity = recordIn(recordIn(podSpec, 'affinity'), 'nodeAffinity');
  const required = recordIn(affinity, 'requiredDuringSchedulingIgnoredDuringExecution');
  if (required['nodeSelectorTerms'] === undefined) return true;
  return listIn(required, 'nodeSelectorTerms').some((term) => {
    const [expressions, fields] = [listIn(term, 'matchExpressions'), listIn(term, 'matchFields')];
    return (
      expressions.length + fields.length > 0 &&
      expressions.every((requirement) => isMet(requirement, ownValue(labels, textIn(requirement, 'key')))) &&
      fields.every((requirement) => textIn(requirement, 'key') === 'metadata.name' && isMet(requirement, name))
    );
  });
}

/** Reports whether a label, or its absence, meets an expression of a selector. */
export function isMet(requirement: Requirement, found: string | undefined): boolean {
  const values: readonly unknown[] = Array.isArray(requirement['values']) ? requirement['values'] : [];
  switch (textIn(requirement, 'operator')) {
    case 'In':
      return values.includes(found);
    case 'NotIn':
      return !values.includes(found);
    case 'Exists':
      return found !== undefined;
    case 'DoesNotExist':
      return found === undefined;
    case 'Gt':
      return isInteger(found) && Number(found) > Number(values[0]);
    case 'Lt':
      return isInteger(found) && Number(found) < Number(values[0]);
    default:
      return false;
  }
}

function isInteger(text: string | undefined): boolean {
  return text !== undefined && /^[+-]?\d+$/.test(text);
}
