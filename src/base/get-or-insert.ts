/** Returns the value of the key. Makes it, and keeps it in the map, when there is none. */
export function getOrInsert<K, V extends object | string | number>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  make: (key: K) => V,
): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make(key);
  map.set(key, made);
  return made;
}
