import type { VisibleResource } from '../kind-names.ts';
import { type Path, showValue, valuesAt } from './json-path.ts';

/** By what the path leads to: numbers by size, all else as text; what has nothing there comes first. */
export function sortResources<R extends VisibleResource>(resources: readonly R[], path: Path): readonly R[] {
  const keyed = resources.map((resource) => ({ resource, key: valuesAt(path, resource)[0] }));
  return keyed.sort((a, b) => compareKeys(a.key, b.key)).map(({ resource }) => resource);
}

function compareKeys(a: unknown, b: unknown): number {
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return showValue(a).localeCompare(showValue(b), 'en', { numeric: true });
}
