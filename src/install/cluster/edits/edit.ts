import { at } from '../../../base/problem.ts';
import { showFound } from '../../../base/problem.ts';

/** A step of a path: a key of an object, an element of a list by one of its fields, or an element equal to a JSON text. */
export type EditStep = string | { readonly key: string; readonly is: string } | { readonly element: string };

/** A difference in one object between an earlier manifest and that of its release. */
export interface ManifestEdit {
  /** Key of the object. */
  readonly object: string;
  /** Empty for the object as a whole. */
  readonly path: readonly EditStep[];
  /** Undefined for what was added. */
  readonly was: unknown;
  /** Undefined for what was removed. */
  readonly is: unknown;
}

/** Returns the line about the edit for its user. Values of Secrets are not shown. */
export function editLine({ object, path, was, is }: ManifestEdit): string {
  if (path.length === 0) return `${object}: ${is === undefined ? 'removed' : 'added'}`;
  const show = (value: unknown): string => (object.startsWith('Secret ') ? '(not shown)' : showFound(value));
  const place = `${object}: ${pathText(path)}`;
  if (was === undefined) return `${place}: ${show(is)} added`;
  if (is === undefined) return `${place}: ${show(was)} removed`;
  return `${place}: ${show(is)} in place of ${show(was)}`;
}

export function pathText(path: readonly EditStep[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'string') return at(text, step);
    return 'key' in step ? `${text}[${step.is}]` : `${text}[]`;
  }, '');
}
