import { setImmediate as nextTurn } from 'node:timers/promises';

export function slicesOf<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

/** Yields the items in slices. Other work of the process can run between two of them. */
export async function* slices<T>(items: readonly T[], size: number): AsyncGenerator<readonly T[], void> {
  for (const [index, slice] of slicesOf(items, size).entries()) {
    if (index > 0) await nextTurn();
    yield slice;
  }
}
