/** Returns the value of the key. Makes it, and keeps it in the map, when there is none. */
export function getOrInsert<K, V>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  make: () => V,
): V {
  const value = map.get(key) ?? make();
  map.set(key, value);
  return value;
}
