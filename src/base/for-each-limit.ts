/**
 * Calls `act` for every item, at most `limit` at the same time. After a failure no further call starts; the failure is
 * thrown when running calls have finished.
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
