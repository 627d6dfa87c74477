/** Returns what the map has for the key, which is made on the first call. */
export function getOrMake<K, V extends object | string>(map: Map<K, V>, key: K, make: (key: K) => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make(key);
  map.set(key, made);
  return made;
}
