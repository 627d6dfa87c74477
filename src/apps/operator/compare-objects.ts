import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '../../model/read-schema.ts';

type Raw = Readonly<Record<string, unknown>>;

/** Fields that the API server writes itself. */
const BOOKKEEPING = ['managedFields', 'resourceVersion', 'generation', 'uid', 'creationTimestamp'];

/** Annotations that programs write for themselves. */
const OF_PROGRAMS = ['kubectl.kubernetes.io/last-applied-configuration', 'deprecated.daemonset.template.generation'];

/**
 * Returns the paths at which the live object lacks what is desired. Further fields and further entries of lists with names
 * do not count: defaults, and what others own.
 */
export function missingPaths(desired: unknown, live: unknown, path = ''): readonly string[] {
  if (isEmpty(desired) && live === undefined) return [];
  if (isRecord(desired)) {
    if (!isRecord(live)) return [path];
    return Object.entries(desired).flatMap(([key, value]) => missingPaths(value, live[key], join(path, key)));
  }
  if (Array.isArray(desired)) {
    if (!Array.isArray(live)) return [path];
    return missingEntries(desired, live, path);
  }
  return isDeepStrictEqual(desired, live) ? [] : [path];
}

function missingEntries(desired: readonly unknown[], live: readonly unknown[], path: string): readonly string[] {
  const [named, liveNamed] = [byName(desired), byName(live)];
  if (named !== undefined && liveNamed !== undefined) {
    return [...named].flatMap(([name, entry]) => missingPaths(entry, liveNamed.get(name), `${path}[${name}]`));
  }
  if (desired.length !== live.length) return [path];
  return desired.flatMap((entry, index) => missingPaths(entry, live[index], `${path}[${String(index)}]`));
}

/** Returns what differs between two states of an object, as `path: before → after`; not its status, nor bookkeeping. */
export function changedPaths(before: Raw, after: Raw): readonly string[] {
  return differences(comparable(before), comparable(after), '');
}

function differences(before: unknown, after: unknown, path: string): readonly string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (isRecord(before) && isRecord(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => differences(before[key], after[key], join(path, key)));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const [named, named2] = [byName(before), byName(after)];
    if (named !== undefined && named2 !== undefined) {
      const names = new Set([...named.keys(), ...named2.keys()]);
      return [...names].flatMap((name) => differences(named.get(name), named2.get(name), `${path}[${name}]`));
    }
  }
  return [`${path}: ${shown(before)} → ${shown(after)}`];
}

function comparable({ metadata, ...all }: Raw): Raw {
  const kept = Object.entries(isRecord(metadata) ? metadata : {}).filter(([key]) => !BOOKKEEPING.includes(key));
  const { status: _, ...object } = all;
  const { annotations } = isRecord(metadata) ? metadata : {};
  const notes = Object.entries(isRecord(annotations) ? annotations : {}).filter(([key]) => !OF_PROGRAMS.includes(key));
  return { ...object, metadata: { ...Object.fromEntries(kept), annotations: Object.fromEntries(notes) } };
}

/** Returns entries by their names; undefined for a list in which some entry has none, or two have the same. */
function byName(list: readonly unknown[]): ReadonlyMap<string, unknown> | undefined {
  const entries = list.flatMap((entry): [string, unknown][] => {
    const name = isRecord(entry) ? entry['name'] : undefined;
    return typeof name === 'string' ? [[name, entry]] : [];
  });
  const map = new Map(entries);
  return map.size === list.length ? map : undefined;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === '') return true;
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function join(path: string, key: string): string {
  if (!/^[\w-]+$/.test(key)) return `${path}[${key}]`;
  return path === '' ? key : `${path}.${key}`;
}

function shown(value: unknown): string {
  if (value === undefined) return 'none';
  const text = JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}
