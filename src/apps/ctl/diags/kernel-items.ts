import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NOT_READ, type PacketTables } from '../../../dataplane/packet-tables.ts';
import { exec } from '../../../base/exec.ts';
import { isOwnTable } from '../../../install/packet-tables.ts';
import { gatherKernel } from '../doctor/kernel-facts.ts';
import { mountOf, readMounts } from '../../../install/host/mounts.ts';
import type { Sources } from '../doctor/sources.ts';
import type { DiagsItem } from './item.ts';

const COMMANDS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  'links.json': ['ip', '-json', '-details', '-statistics', 'link', 'show'],
  'addresses.json': ['ip', '-json', 'address', 'show'],
  'routes-ipv4.json': ['ip', '-json', '-details', '-4', 'route', 'show', 'table', 'all'],
  'routes-ipv6.json': ['ip', '-json', '-details', '-6', 'route', 'show', 'table', 'all'],
  'rules-ipv4.json': ['ip', '-json', '-4', 'rule', 'show'],
  'rules-ipv6.json': ['ip', '-json', '-6', 'rule', 'show'],
  'neighbours.json': ['ip', '-json', 'neighbour', 'show'],
  'forwarding.json': ['bridge', '-json', 'fdb', 'show'],
};

/** Returns the kernel state of pods, tunnels, routes and NAT. */
export function kernelItems(sources: Sources): readonly DiagsItem[] {
  const { ports } = sources.context;
  const { procDir } = ports.host;
  return [
    ...Object.entries(COMMANDS).map(([name, command]): DiagsItem => ({
      path: join('kernel', name),
      gather: async (signal) => output(command, signal),
    })),
    { path: 'kernel/nftables.json', gather: async (signal) => listPacketTables(ports.openPacketTables(), signal) },
    {
      path: 'kernel/facts.json',
      gather: async (signal) => {
        const { families, needed, ...facts } = await gatherKernel(sources, signal);
        return JSON.stringify({ ...facts, families: [...families], needed: [...needed] });
      },
    },
    { path: 'kernel/version.txt', gather: async () => readFile(join(procDir, 'version'), 'utf8') },
    { path: 'os-release.txt', gather: async () => readFile('/etc/os-release', 'utf8') },
    { path: 'mounts.json', gather: async () => JSON.stringify(await mountsOf(sources)) },
  ];
}

/** Returns all tables. Sets of other programs, which may be large, have no elements. */
async function listPacketTables(reader: PacketTables, signal: AbortSignal): Promise<string> {
  const listed: object[] = [];
  for (const table of await reader.list(signal)) {
    const sets: object[] = [];
    for (const set of table.sets)
      sets.push({ ...set, elements: isOwnTable(table) ? await reader.elements(table, set, signal) : NOT_READ });
    listed.push({ ...table, sets });
  }
  return JSON.stringify(listed);
}

async function output([file, ...args]: readonly [string, ...string[]], signal: AbortSignal): Promise<string> {
  const { status, stdout, stderr } = await exec(file, args, { signal });
  if (status === 0) return stdout === '' ? '[]' : stdout;
  throw new Error(`${file} ${args.join(' ')}: ${stderr.trim()}`);
}

/** Returns the mount of each folder that netplug uses. */
async function mountsOf({ context, places }: Sources): Promise<object> {
  const { machine, host } = context.ports;
  const mounts = readMounts(await readFile(join(host.procDir, 'self/mounts'), 'utf8'));
  const folders = [machine.stateDir, machine.runDir, machine.logDir, places.confDir, ...places.binDirs];
  return Object.fromEntries(folders.map((folder) => [folder, mountOf(mounts, folder)]));
}
