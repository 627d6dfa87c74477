import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isNetplugError } from '../../../base/errors.ts';
import type { HostTable, PacketTables } from '../../../dataplane/packet-tables.ts';
import { findLeftOvers, type LeftOver } from '../../../install/host/left-overs.ts';
import { type ConfFile, readConfFiles } from './conf-files.ts';

/** Where plugins pin programs and maps, below the root of the first process. */
const PIN_FOLDERS = ['sys/fs/bpf', 'sys/fs/bpf/tc/globals'];

interface LeftOverPorts {
  readonly procDir: string;
  readonly tables: Pick<PacketTables, 'list' | 'listIpSets'>;
}

/** Finds what other network plugins have left on this node, except for those that a configuration in the folder uses. @throws kernel/failed */
export async function readLeftOvers(
  { procDir, tables }: LeftOverPorts,
  given: { readonly files: readonly ConfFile[]; readonly listed?: readonly HostTable[] },
  signal: AbortSignal,
): Promise<readonly LeftOver[]> {
  const found = {
    devices: await readDevices(procDir),
    tables: given.listed ?? (await unlessRefused(tables.list(signal))),
    sets: await unlessRefused(tables.listIpSets(signal)),
    pins: (await Promise.all(PIN_FOLDERS.map(async (folder) => listOrNone(join(procDir, '1/root', folder))))).flat(),
  };
  return findLeftOvers(found, new Set(given.files.flatMap(configuredBy)));
}

/** Returns types and bridges that the configuration names, also those of plugins that a plugin such as multus calls. */
function configuredBy({ text = '' }: ConfFile): readonly string[] {
  return [...text.matchAll(/"(?:type|bridge)"\s*:\s*"([^"]*)"/g)].map(([, name = '']) => name);
}

/** The same for a folder that was not read yet. */
export async function readLeftOversBeside(
  ports: LeftOverPorts,
  confDir: string,
  signal: AbortSignal,
): Promise<readonly LeftOver[]> {
  return readLeftOvers(ports, { files: await readConfFiles(confDir) }, signal);
}

/** Returns the names of the devices of the network namespace of this process. */
export async function readDevices(procDir: string): Promise<readonly string[]> {
  return listOrNone(join(procDir, 'sys/net/ipv4/conf'));
}

/** A kernel that lists nothing, or lists it to others alone, is examined by another check. */
async function unlessRefused<T>(listed: Promise<readonly T[]>): Promise<readonly T[]> {
  return listed.catch((cause: unknown) => {
    if (!isNetplugError(cause, 'kernel/failed')) throw cause;
    return [];
  });
}

async function listOrNone(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}
