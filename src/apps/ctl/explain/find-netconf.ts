import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, isNetplugError, NetplugError } from '../../../base/errors.ts';
import { problemsError } from '../../../base/problem.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { inspectNetconf } from '../../../config/decode.ts';
import type { Netconf } from '../../../config/netconf.ts';
import { parseJsonObject } from '../../../config/parse-json.ts';
import { readSource } from '../inputs.ts';

type Raw = Readonly<Record<string, unknown>>;

/** A network configuration of netplug, and its file. */
export interface FoundNetconf {
  readonly file: string;
  readonly raw: Raw;
  readonly config: Netconf;
}

/** Reads the configuration of netplug in a file. @throws cli/usage, cni/input-undecodable, netconf/invalid */
export async function readNetconf(file: string): Promise<FoundNetconf> {
  const found = await findIn(file);
  if (found !== undefined) return found;
  throw new NetplugError('netconf/invalid', `Cannot use file "${file}": no plugin in it is of type "netplug"`, {
    hint: 'Pass a configuration or a list with an entry of "type": "netplug"',
  });
}

/**
 * Returns the first configuration of netplug in the order of file names; undefined when there is none.
 * @throws netconf/invalid
 */
export async function findNetconf(folder: string): Promise<FoundNetconf | undefined> {
  const names = await readdir(folder).catch((cause: unknown) => {
    if (errnoOf(cause) === undefined) throw cause;
    return [];
  });
  for (const name of names.filter((each) => /\.(conf|conflist|json)$/.test(each)).sort()) {
    try {
      const found = await findIn(join(folder, name));
      if (found !== undefined) return found;
    } catch (cause) {
      // Files of other plugins may be unreadable or not JSON.
      if (!isNetplugError(cause, 'cli/usage', 'cni/input-undecodable')) throw cause;
    }
  }
  return undefined;
}

async function findIn(file: string): Promise<FoundNetconf | undefined> {
  const raw = entryOf(parseJsonObject((await readSource(file)).text));
  if (raw === undefined) return undefined;
  const { netconf: config, problems } = inspectNetconf(raw, 'network');
  if (config !== undefined) return { file, raw, config };
  throw problemsError(`the network configuration in "${file}"`, problems, 'netconf/invalid');
}

/** Returns the entry of netplug as the runtime passes it, with name and version of the list. */
function entryOf(raw: Raw): Raw | undefined {
  const { plugins, name, cniVersion } = raw;
  if (!Array.isArray(plugins)) return raw['type'] === 'netplug' ? raw : undefined;
  const entry: unknown = plugins.find((each) => isRecord(each) && each['type'] === 'netplug');
  return isRecord(entry) ? { ...entry, name, cniVersion } : undefined;
}
