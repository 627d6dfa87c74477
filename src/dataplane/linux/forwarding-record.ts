import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { errnoOf } from '../../base/errors.ts';
import { isMissing } from '../../base/missing-file.ts';
import { FAMILIES, type Family } from '../../net/address.ts';
import { IPV4_SWITCH, IPV6_SWITCH, optionalSysctl, type Sysctl } from '../link-sysctls.ts';
import { bootId } from './boot-id.ts';
import { isDifferent, listSysctls, readSysctl, writeSysctl } from './sysctl.ts';

/** Records the settings of a family before netplug enables one of them on the host: the switch of the family unless given. */
export type ForwardingRecorder = (family: Family, path?: string) => void;

const FORMAT = 1;
const SettingsSchema = v.array(v.tuple([v.string(), v.string()]));
const RecordSchema = v.object({ format: v.literal(FORMAT), bootId: v.string(), values: SettingsSchema });

/** Forwarding of the whole family, which comes first because its change resets the other settings. */
const SWITCHES: Readonly<Record<Family, string>> = { 4: IPV4_SWITCH, 6: IPV6_SWITCH };
const MODE = 0o600;
/** Errors that are ignored, because an unwritable folder must not leave pods without network. */
const UNWRITABLE = ['EROFS', 'EACCES', 'EPERM', 'ENOSPC', 'EDQUOT', 'ENOTDIR'];

/**
 * Returns a recorder that writes `sysctls-ipv4.json` and `sysctls-ipv6.json` to the folder. The first record since boot
 * stays, also when several processes write one, because later values may be those that netplug has set.
 */
export function forwardingRecorder(folder: string): ForwardingRecorder {
  return (family, enabled = SWITCHES[family]) => {
    const values = currentValues(family);
    // Another process may have enabled it in the meantime.
    if (!values.some(([path, value]) => path === enabled && value === '0')) return;
    const path = fileOf(folder, family);
    const draft = `${path}.${randomBytes(6).toString('hex')}`;
    try {
      mkdirSync(folder, { recursive: true });
      writeFileSync(draft, `${JSON.stringify({ format: FORMAT, bootId: bootId(), values })}\n`, { mode: MODE });
      const isFree = recordedValues(folder, family) === undefined && !isNewer(folder, family);
      const put = isFree ? renameSync : linkSync;
      put(draft, path);
    } catch (cause) {
      if (!['EEXIST', ...UNWRITABLE].includes(errnoOf(cause) ?? '')) throw cause;
    } finally {
      rmSync(draft, { force: true });
    }
  };
}

/** Returns the recorded settings, with the recorded value, whose actual value differs. */
export function changedSettings(folder: string): readonly Sysctl[] {
  return FAMILIES.flatMap((family) => recordedValues(folder, family) ?? []).filter(isDifferent);
}

/** Restores the recorded settings and removes the records. Idempotent. @throws kernel/failed */
export function restoreSettings(folder: string): void {
  for (const family of FAMILIES) {
    for (const setting of recordedValues(folder, family) ?? [])
      // Read in the loop, because a setting restored before may have changed this one.
      if (isDifferent(setting)) writeSysctl(setting, 'on the host');
    if (!isNewer(folder, family)) rmSync(fileOf(folder, family), { force: true });
  }
}

/** Whether a newer release has written the record, in a form that only it can restore. */
function isNewer(folder: string, family: Family): boolean {
  const schema = v.pipe(v.string(), v.parseJson(), v.looseObject({ format: v.pipe(v.number(), v.gtValue(FORMAT)) }));
  return v.safeParse(schema, readRecord(folder, family)).success;
}

/** Returns the settings that the kernel or netplug changes when forwarding is enabled. */
function currentValues(family: Family): readonly (readonly [path: string, value: string])[] {
  const root = `ipv${String(family)}/conf`;
  const perLink = family === 4 ? ['forwarding'] : ['forwarding', 'accept_ra'];
  const paths = new Set([
    SWITCHES[family],
    ...(family === 4 ? [`${root}/all/accept_redirects`] : []),
    ...listSysctls(root).flatMap((link) => perLink.map((name) => `${root}/${link}/${name}`)),
  ]);
  return [...paths].flatMap((path) => {
    const value = readSysctl(path);
    return value === undefined ? [] : [[path, value] as const];
  });
}

/** Returns the recorded settings; undefined without a record of this boot. They are optional, because interfaces may have been removed. */
function recordedValues(folder: string, family: Family): readonly Sysctl[] | undefined {
  const read = v.safeParse(v.pipe(v.string(), v.parseJson(), RecordSchema), readRecord(folder, family));
  if (!read.success || read.output.bootId !== bootId()) return undefined;
  return read.output.values.map(([path, value]) => optionalSysctl(path, value));
}

function readRecord(folder: string, family: Family): string | undefined {
  try {
    return readFileSync(fileOf(folder, family), 'utf8');
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw cause;
  }
}

function fileOf(folder: string, family: Family): string {
  return join(folder, `sysctls-ipv${String(family)}.json`);
}
