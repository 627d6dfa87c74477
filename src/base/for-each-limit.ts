/**
 * Does something with every item, `limit` of them at the same moment. After a failure no further item is begun; it is
 * thrown when those under way have ended.
 */
export async function forEachLimit<T>(
  items: readonly T[],
  limit: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const left = items.values();
  const failures: unknown[] = [];
  const work = async (): Promise<void> => {
    for (const item of left) {
      if (failures.length > 0) return;
      await act(item).catch((cause: unknown) => failures.push(cause));
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
  if (failures.length > 0) throw failures[0];
}
