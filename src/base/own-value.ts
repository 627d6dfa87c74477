/**
 * Returns the value that the record itself has under the key. For a key that netplug does not choose, use it instead of
 * brackets, which find `constructor` and `toString` in every object, and for which `__proto__` is no key.
 */
export function ownValue<T>(record: Readonly<Record<string, T>> | null | undefined, key: string): T | undefined {
  return record !== undefined && record !== null && Object.hasOwn(record, key) ? record[key] : undefined;
}
