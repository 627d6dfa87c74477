/** Returns the count with its noun: `1 block`, `2 blocks`. */
export function counted(count: number | bigint, one: string, many = `${one}s`): string {
  return `${String(count)} ${Number(count) === 1 ? one : many}`;
}
