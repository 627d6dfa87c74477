import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { NetplugError, errnoOf } from '../../base/errors.ts';
import { type Sysctl, sysctlName } from '../link-sysctls.ts';

const ROOT = '/proc/sys/net/';

/** Reads a setting in the namespace of the thread; undefined when the kernel does not have it. */
export function readSysctl(path: string): string | undefined {
  try {
    return readFileSync(ROOT + path, 'utf8').trim();
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return undefined;
    throw failed(`read sysctl ${sysctlName(path)}`, cause);
  }
}

/** Lists the names below the path in the namespace of the thread; none when the kernel does not have the path. */
export function listSysctls(path: string): readonly string[] {
  try {
    return readdirSync(ROOT + path);
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return [];
    throw failed(`list sysctls ${sysctlName(path)}`, cause);
  }
}

/** Reports whether the actual value in the namespace of the thread differs; a missing optional setting does not. */
export function isDifferent({ path, value, isOptional }: Sysctl): boolean {
  const found = readSysctl(path);
  return found !== value && !(found === undefined && isOptional);
}

/** Returns the actual values that differ from `wanted`, as `name=value`. */
export function differingSysctls(wanted: readonly Sysctl[]): readonly string[] {
  return wanted.filter(isDifferent).map(({ path }) => `${sysctlName(path)}=${readSysctl(path) ?? 'missing'}`);
}

/** Writes a setting in the namespace of the thread. @throws kernel/failed, in which `where` names the namespace */
export function writeSysctl({ path, value, isOptional }: Sysctl, where: string): void {
  try {
    writeFileSync(ROOT + path, value, { flag: 'r+' });
  } catch (cause) {
    if (isOptional && errnoOf(cause) === 'ENOENT') return;
    throw failed(`set sysctl ${sysctlName(path)} to ${value} ${where}`, cause);
  }
}

function failed(what: string, cause: unknown): NetplugError {
  const errno = errnoOf(cause) ?? String(cause);
  return new NetplugError('kernel/failed', `Cannot ${what}: the kernel says ${errno}`, { facts: { errno }, cause });
}
