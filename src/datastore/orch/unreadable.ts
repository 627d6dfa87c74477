import { NetplugError } from '../../base/errors.ts';
import type { ApiAnswer } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';

/** An object that could not be understood: its kind, its name and why. */
export class Unreadable {
  readonly problem: string;

  constructor(kind: string, name: string, why: string) {
    this.problem = `Cannot understand ${kind} "${name}": ${why}`;
  }
}

/** Sorts what was read into what is understood and the problems with the rest. */
export function sortOut<R, T>(
  objects: readonly R[],
  read: (object: R) => T | Unreadable,
): { readonly good: T[]; readonly problems: string[] } {
  const good: T[] = [];
  const problems: string[] = [];
  for (const object of objects) {
    const record = read(object);
    if (record instanceof Unreadable) problems.push(record.problem);
    else good.push(record);
  }
  return { good, problems };
}

/** @throws store/corrupt for an object that cannot be left out. */
export function insist<T>(record: T | Unreadable): T {
  if (!(record instanceof Unreadable)) return record;
  throw new NetplugError('store/corrupt', record.problem, { hint: 'Correct or delete the object' });
}

/** The object, or none. */
export function found(answer: ApiAnswer<ApiObject>): ApiObject[] {
  return answer.outcome === 'ok' ? [answer.value] : [];
}
