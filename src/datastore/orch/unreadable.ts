import type { ApiAnswer } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { Unreadable } from '../unreadable.ts';

export function unreadableObject(kind: string, name: string, why: string): Unreadable {
  return new Unreadable(`Cannot understand ${kind} "${name}": ${why}`, 'Correct or delete the object');
}

/** The object, or none. */
export function found(answer: ApiAnswer<ApiObject>): ApiObject[] {
  return answer.outcome === 'ok' ? [answer.value] : [];
}
