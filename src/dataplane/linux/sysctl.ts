import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { NetplugError, errnoOf } from '../../base/errors.ts';
import { type Sysctl, sysctlName } from '../link-sysctls.ts';

const ROOT = '/proc/sys/net/';

/** Of the namespace the thread is in; undefined when the kernel does not have it. */
export function readSysctl(path: string): string | undefined {
  try {
    return readFileSync(ROOT + path, 'utf8').trim();
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return undefined;
    throw failed(`read sysctl ${sysctlName(path)}`, cause);
  }
}

/** The names below the path, in the namespace the thread is in; none when the kernel does not have it. */
export function listSysctls(path: string): readonly string[] {
  try {
    return readdirSync(ROOT + path);
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return [];
    throw failed(`list sysctls ${sysctlName(path)}`, cause);
  }
}

/** Whether it reads differently in the namespace the thread is in; an optional one that is missing does not. */
export function isDifferent({ path, value, isOptional }: Sysctl): boolean {
  const found = readSysctl(path);
  return found !== value && !(found === undefined && isOptional);
}

/** Those of `wanted` that read differently, as `name=value`. */
export function differingSysctls(wanted: readonly Sysctl[]): readonly string[] {
  return wanted.filter(isDifferent).map(({ path }) => `${sysctlName(path)}=${readSysctl(path) ?? 'missing'}`);
}

/** Writes in the namespace the thread is in. @throws kernel/failed, `where` says which namespace. */
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
