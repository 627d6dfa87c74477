import { mkdirSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { dirname, join } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import { isMissing } from '../base/missing-file.ts';
import { sha256Of } from '../base/sha256.ts';
import { readVariable } from '../config/environment.ts';
import type { MachineIdentity } from '../ipam/node/name-claim.ts';
import { hostIn, idInFile } from './host-in.ts';
import { readText } from './read-text.ts';
import { stateDir } from './registration.ts';

const LINKS = '/sys/class/net';
/** A folder in which nothing can be written. */
const UNKEPT: readonly string[] = ['ENOSPC', 'EDQUOT', 'EROFS', 'EACCES', 'EPERM'];
const NO_MAC = '00:00:00:00:00:00';
/** The type of a link in sysfs: ARPHRD_ETHER. */
const ETHERNET = '1';
/** How a link got its MAC address, in sysfs: NET_ADDR_RANDOM. */
const RANDOM = '1';

/**
 * Returns what tells this machine from others that use the same name. An image contains machine id and state folder, but not
 * the folder of what lasts until the next boot. Containers that are nodes share the boot of their host.
 */
export function machineIdentityIn(
  env: NodeJS.ProcessEnv,
  { runId = madeRunId }: { readonly runId?: (path: string) => string | undefined } = {},
): MachineIdentity {
  const run = runId(join(readVariable(env, 'NETPLUG_RUN_DIR'), 'machine-run'));
  const isOwn = isOwnSysfs(networkInterfaces(), (link, file) => readText(join(LINKS, link, file)));
  const marks = [...(isOwn ? cardAddressesIn(LINKS) : []), ...serialNumbers()];
  const hardware = [...new Set(marks.map(digest))].sort();
  const { machine, boot } = hostIn(env);
  return {
    id: digest(machine),
    runs: [...(run === undefined ? [] : [`run ${run}`]), ...places(stateDir(env))].map((each) =>
      digest(`${boot} ${each}`),
    ),
    ...(hardware.length === 0 ? {} : { hardware }),
    hostName: hostname(),
  };
}

/** Returns the same for a program that leaves no files: the runtime calls the plugin without the variables of the agent. */
export function readMachineIdentity(env: NodeJS.ProcessEnv): MachineIdentity {
  return machineIdentityIn(env, { runId: readText });
}

/** Returns the id in the file of what need not survive a boot; undefined where none can be kept. */
function madeRunId(path: string): string | undefined {
  try {
    mkdirSync(dirname(path), { recursive: true });
    const id = idInFile(path);
    return id === '' ? undefined : id;
  } catch (cause) {
    if (!UNKEPT.includes(errnoOf(cause) ?? '')) throw cause;
    return undefined;
  }
}

/** Returns where the kernel has the state folder, which is elsewhere in a copy. */
function places(folder: string): readonly string[] {
  const stat = statSync(join(folder, 'folder-id'), { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? [] : [`folder ${String(stat.dev)} ${String(stat.ino)}`];
}

/**
 * Returns the MAC addresses of the network cards in the folder of sysfs. USB devices move between machines, and management controllers
 * have some with the same address on every machine. Virtual functions, and cards without an address, get a random one at each boot.
 */
export function cardAddressesIn(links: string): readonly string[] {
  return readdirSync(links).flatMap((name) => {
    const device = realPath(join(links, name, 'device'));
    if (device === undefined || device.includes('/usb') || realPath(join(device, 'physfn')) !== undefined) return [];
    if (readText(join(links, name, 'addr_assign_type')) === RANDOM) return [];
    // A port of a bond has the address of the bond.
    const mac = readText(join(links, name, 'bonding_slave/perm_hwaddr')) ?? readText(join(links, name, 'address'));
    return mac === undefined || mac === NO_MAC ? [] : [mac];
  });
}

/**
 * Reports whether sysfs shows the links of the own network namespace: that of a container may be the one of its host. Every Ethernet
 * link with an address must have there the MAC address that it has here; other links, such as tunnels, have none to compare. Takes
 * the content of `/sys/class/net/LINK/FILE` from `read`.
 */
export function isOwnSysfs(
  interfaces: ReturnType<typeof networkInterfaces>,
  read: (link: string, file: string) => string | undefined,
): boolean {
  const shown = Object.entries(interfaces).flatMap(([label, entries]) => {
    const [entry] = entries ?? [];
    if (entry === undefined || entry.internal) return [];
    // The second address of "eth0" may have the label "eth0:1".
    const link = label.replace(/:.*/, '');
    const type = read(link, 'type');
    return type === undefined || type === ETHERNET ? [{ isEqual: read(link, 'address') === entry.mac }] : [];
  });
  return shown.length > 0 && shown.every(({ isEqual }) => isEqual);
}

/** Boards without a network card of their own have a serial number. */
function serialNumbers(): readonly string[] {
  const serial = readText('/proc/device-tree/serial-number')?.replaceAll('\0', '');
  return serial === undefined || /^0*$/.test(serial) ? [] : [serial];
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw cause;
  }
}

function digest(text: string): string {
  return sha256Of(text).slice(0, 16);
}
