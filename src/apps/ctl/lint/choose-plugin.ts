import { NetplugError } from '../../../base/errors.ts';
import { at, showFound } from '../../../base/problem.ts';
import { isRecord } from '../../../model/read-schema.ts';
import type { ReadAs } from '../../../config/decode.ts';
import { isList, isNetplugEntry } from '../../../config/lint-conflist.ts';

type Raw = Readonly<Record<string, unknown>>;

/** A plugin entry as the runtime passes it, and how to find its keys in the file. */
export interface ChosenPlugin {
  readonly raw: Raw;
  readonly as: ReadAs;
  /** Translates a path in `raw` to the path in the file. */
  readonly pathInFile: (path: string) => string;
}

/** Returns the first entry of netplug, or the entry with the requested type or index. @throws cli/usage */
export function choosePlugin(raw: Raw, asked: string | undefined): ChosenPlugin {
  if (!isList(raw)) return { raw, as: readAs(raw), pathInFile: (path) => path };
  const plugins: unknown[] = Array.isArray(raw['plugins']) ? raw['plugins'] : [];
  const index = plugins.findIndex((entry, position) =>
    asked === undefined ? isRecord(entry) && isNetplugEntry(entry) : isAsked(entry, position, asked),
  );
  const entry = plugins[index];
  if (!isRecord(entry) || !isNetplugEntry(entry)) throw notFound(plugins, asked);
  const { name, cniVersion } = raw;
  const inherited = { ...(name === undefined ? {} : { name }), ...(cniVersion === undefined ? {} : { cniVersion }) };
  return {
    raw: { ...entry, ...inherited },
    as: readAs(entry),
    pathInFile: (path) => (Object.hasOwn(inherited, path) ? path : `${at('plugins', index)}.${path}`),
  };
}

function readAs({ type }: Raw): ReadAs {
  return typeof type === 'string' && type !== 'netplug' ? 'ipam' : 'network';
}

function isAsked(entry: unknown, position: number, asked: string): boolean {
  return String(position) === asked || (isRecord(entry) && entry['type'] === asked);
}

function notFound(plugins: readonly unknown[], asked: string | undefined): NetplugError {
  const types = plugins.map(
    (entry, index) => `${String(index)} ${isRecord(entry) ? String(entry['type']) : showFound(entry)}`,
  );
  const what = asked === undefined ? 'a plugin of netplug in the list' : `the configuration of plugin "${asked}"`;
  const found = types.length === 0 ? 'there are no plugins' : `the plugins are ${types.join(', ')}`;
  return new NetplugError('cli/usage', `Cannot explain ${what}: ${found}`, {
    hint: 'Choose an entry whose type is netplug, or whose ipam.type is netplug-ipam, with --plugin',
  });
}
