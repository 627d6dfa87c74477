import { readdirSync, statSync } from 'node:fs';
import { isNetplugError, NetplugError } from '../../base/errors.ts';
import type { Addon } from './addon.ts';
import { decodeNetnsId, getNetnsId } from './link-messages.ts';
import { findLink } from './links.ts';
import { type Netns, openNetns } from './netns.ts';
import { RouteSocket } from './route-socket.ts';

/** Where runtimes keep the namespaces of pods. */
const NAMED = '/run/netns';

/**
 * Opens the network namespace that has the other end of the link: one with a name, else one of a process.
 * @throws kernel/netns-invalid
 */
export function openNetnsBehind(addon: Addon, interfaceName: string): Netns {
  const found = findNetnsBehind(addon, interfaceName);
  if (found !== undefined) return found;
  throw new NetplugError(
    'kernel/netns-invalid',
    `Cannot find the network namespace behind interface "${interfaceName}"`,
    {
      hint: 'Run the command in the mount and PID namespaces of the host, such as by "nsenter --target 1 --mount --pid COMMAND"',
      facts: { link: interfaceName },
    },
  );
}

/** Returns a path of the same namespace; undefined when none is visible. That of a process is valid as long as the process runs. */
export function findNetnsPath(addon: Addon, interfaceName: string): string | undefined {
  using netns = findNetnsBehind(addon, interfaceName);
  return netns?.path;
}

function findNetnsBehind(addon: Addon, interfaceName: string): Netns | undefined {
  using host = RouteSocket.open(addon);
  const id = findLink(host, interfaceName)?.peerNetnsId;
  const seen = new Set<bigint>();
  for (const path of id === undefined ? [] : candidates()) {
    const inode = inodeOf(path);
    if (inode === undefined || seen.has(inode)) continue;
    seen.add(inode);
    const netns = tryOpen(addon, path);
    if (netns === undefined) continue;
    const [body] = host.ask(getNetnsId(netns.fd)).bodies;
    if (body !== undefined && decodeNetnsId(body) === id) return netns;
    netns[Symbol.dispose]();
  }
  return undefined;
}

function* candidates(): Generator<string> {
  for (const name of listed(NAMED)) yield `${NAMED}/${name}`;
  for (const name of listed('/proc')) if (/^\d+$/.test(name)) yield `/proc/${name}/ns/net`;
}

function listed(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Undefined for a process that has exited. */
function inodeOf(path: string): bigint | undefined {
  try {
    return statSync(path, { bigint: true }).ino;
  } catch {
    return undefined;
  }
}

/** Undefined for what is no network namespace, or the own one. */
function tryOpen(addon: Addon, path: string): Netns | undefined {
  try {
    return openNetns(addon, path, { allowOwn: false });
  } catch (cause) {
    if (!isNetplugError(cause, 'kernel/netns-invalid')) throw cause;
    return undefined;
  }
}
