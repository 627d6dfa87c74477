import { tryParseJson } from '../../base/try-parse-json.ts';
import { CONFIG_MAP } from '../../install/cluster/names.ts';
import type { Manifest } from '../../model/manifest.ts';
import { isRecord } from '../../model/read-schema.ts';
import { findNamed, listIn, recordIn, textIn } from './objects-in.ts';

/** Returns the plugins of the conflist among the objects, in their order. Pure. */
export function conflistPlugins(objects: readonly Manifest[]): readonly Readonly<Record<string, unknown>>[] {
  const data = recordIn(findNamed(objects, 'ConfigMap', CONFIG_MAP) ?? {}, 'data');
  const conflist = tryParseJson(textIn(data, 'conflist'));
  return isRecord(conflist) ? listIn(conflist, 'plugins') : [];
}
