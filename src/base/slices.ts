import { setImmediate as nextTurn } from 'node:timers/promises';

export function slicesOf<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

/** Returns the items in slices, each of which has at most that weight, or one item. */
export function slicesByWeight<T>(
  items: readonly T[],
  { most, weightOf }: { readonly most: number; readonly weightOf: (item: T) => number },
): readonly (readonly T[])[] {
  const sliced: T[][] = [];
  let weight = Infinity;
  for (const item of items) {
    const own = weightOf(item);
    weight += own;
    if (weight > most) {
      sliced.push([]);
      weight = own;
    }
    sliced.at(-1)?.push(item);
  }
  return sliced;
}

/** Yields the items in slices. Other work of the process can run between two of them. */
export async function* slices<T>(items: readonly T[], size: number): AsyncGenerator<readonly T[], void> {
  yield* inTurn(slicesOf(items, size));
}

/** Yields what the list has. Other work of the process can run between two of them. */
export async function* inTurn<T>(list: readonly T[]): AsyncGenerator<T, void> {
  for (const [index, one] of list.entries()) {
    if (index > 0) await nextTurn();
    yield one;
  }
}
