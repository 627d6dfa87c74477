import { ownValue } from '../../base/own-value.ts';
import type { InstallationSpec } from '../../model/installation.ts';
import { isRecord } from '../../model/read-schema.ts';

/** Drops the index signature of objects that may have further keys. */
type Known<T> = { [K in keyof T as string extends K ? never : K]: T[K] };
/** An override of a workload is one field: objects show it as a whole. */
type IsField<K, V> = K extends 'node' | 'controllers' | 'typha'
  ? true
  : V extends string | number | readonly unknown[]
    ? true
    : false;
/** Agents decide these when they are not written. */
type Undecided = 'mtu' | 'bandwidthBurstMs' | 'nodeAddressDetectionV4' | 'nodeAddressDetectionV6';

/** The path of a field in the spec of an Installation, such as `calicoNetwork.mtu`. */
export type FieldPath<T = InstallationSpec> = {
  [K in keyof Known<T> & string]-?: IsField<K, NonNullable<T[K]>> extends true
    ? K
    : `${K}.${FieldPath<NonNullable<T[K]>>}`;
}[keyof Known<T> & string];

/** The type of the field at a path. */
export type FieldValue<P extends string, T = InstallationSpec> = P extends `${infer Head}.${infer Rest}`
  ? FieldValue<Rest, NonNullable<T[Head & keyof T]>>
  : NonNullable<T[P & keyof T]>;

/** The spec of an Installation with every field that has a value, written or not. */
export type CompleteSpec<T = InstallationSpec> = {
  readonly [K in Exclude<keyof Known<T>, Undecided>]-?: IsField<K, NonNullable<T[K]>> extends true
    ? NonNullable<T[K]>
    : CompleteSpec<NonNullable<T[K]>>;
} & { readonly [K in Extract<keyof Known<T>, Undecided>]?: NonNullable<T[K]> };

type Members = Readonly<Record<string, unknown>>;

/** Returns what is at a path such as `a.b`; undefined when nothing is. */
export function valueAt(object: unknown, path: string): unknown {
  return path.split('.').reduce((inner, key) => (isRecord(inner) ? ownValue(inner, key) : undefined), object);
}

/** Returns the object that has each value at its path. A value that is undefined is left out. */
export function objectOf(values: readonly (readonly [path: string, value: unknown])[]): Members {
  return values.reduce<Members>(
    (whole, [path, value]) => (value === undefined ? whole : withValue(whole, path.split('.'), value)),
    {},
  );
}

function withValue(object: Members, [key = '', ...rest]: readonly string[], value: unknown): Members {
  const inner = ownValue(object, key);
  return { ...object, [key]: rest.length === 0 ? value : withValue(isRecord(inner) ? inner : {}, rest, value) };
}
