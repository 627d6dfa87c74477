import * as v from 'valibot';
import { ownValue } from '../base/own-value.ts';
import { at, type Findings, foundNotAllowed, type Problem } from '../base/problem.ts';
import { isRecord, problemsOf } from '../model/read-schema.ts';
import { type Address, tryParseAddress } from '../net/address.ts';
import { tryParseMac } from '../net/mac.ts';
import { tryReadCidr } from '../net/cidr.ts';
import type { RuntimeInput } from './netconf.ts';

type Raw = Readonly<Record<string, unknown>>;
const CODE = 'netconf/invalid';
const Attachments = v.array(
  v.looseObject({ containerID: v.string('a string'), ifname: v.string('a string') }, 'an object'),
  'an array of objects with containerID and ifname',
);

/** Decodes the input of the runtime. Keys are matched in any letter case, because runtimes written in Go do so. */
export function readRuntimeInput(raw: Raw, { problems }: Findings): RuntimeInput {
  const config = section(raw, 'runtimeConfig', problems);
  const args = section(raw, 'args', problems);
  const fromConfig = readIps(valueOf(config, 'ips'), 'runtimeConfig.ips', problems);
  const cniArgs = valueOf(args, 'cni');
  const fromArgs = readIps(valueOf(isRecord(cniArgs) ? cniArgs : {}, 'ips'), 'args.cni.ips', problems);
  return {
    prevResult: raw['prevResult'] ?? undefined,
    ips: fromConfig ?? fromArgs ?? [],
    mac: readMac(valueOf(config, 'mac'), problems),
    validAttachments: readAttachments(raw, problems),
    disablesGc: disablesGc(raw),
  };
}

/**
 * Reports whether a configuration, or a list, sets `disableGC` (CNI 1.1.0): runtimes must not call GC then. Runtimes also accept
 * the string.
 */
export function disablesGc(raw: Raw): boolean {
  const value = ownValue(raw, 'disableGC');
  return value === true || value === 'true';
}

/** Reports whether the runtime passes ranges to `host-local`. */
export function hasRuntimeRanges(raw: Raw): boolean {
  const config = raw['runtimeConfig'];
  return isRecord(config) && (valueOf(config, 'ipRanges') ?? undefined) !== undefined;
}

function section(raw: Raw, key: string, problems: Problem[]): Raw {
  const value = ownValue(raw, key) ?? {};
  if (isRecord(value)) return value;
  problems.push({ path: key, message: foundNotAllowed(value, 'an object'), code: CODE });
  return {};
}

function valueOf(raw: Raw, key: string): unknown {
  const folded = key.toLowerCase();
  return ownValue(raw, key) ?? Object.entries(raw).find(([candidate]) => candidate.toLowerCase() === folded)?.[1];
}

/** Returns the requested addresses; undefined for none. Go writes an empty list as null. */
function readIps(value: unknown, path: string, problems: Problem[]): Address[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value)) {
    problems.push({ path, message: foundNotAllowed(value, 'an array of addresses'), code: CODE });
    return undefined;
  }
  const addresses: Address[] = [];
  for (const [index, item] of value.entries()) {
    const address = typeof item === 'string' ? (tryReadCidr(item)?.address ?? tryParseAddress(item)) : undefined;
    if (address === undefined) {
      const message = foundNotAllowed(item, 'an IP address, with or without prefix length');
      problems.push({ path: at(path, index), message, code: CODE });
    } else if (addresses.some(({ family }) => family === address.family)) {
      const message = `is a second IPv${String(address.family)} address, allowed is one of each family`;
      problems.push({ path: at(path, index), message, code: 'ipam/request-invalid' });
    } else {
      addresses.push(address);
    }
  }
  return addresses.length === 0 ? undefined : addresses;
}

function readMac(value: unknown, problems: Problem[]): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  const mac = typeof value === 'string' ? tryParseMac(value) : undefined;
  if (mac === undefined) {
    const message = foundNotAllowed(value, 'a unicast hardware address such as "0a:58:0a:00:00:01"');
    problems.push({ path: 'runtimeConfig.mac', message, code: CODE });
  }
  return mac;
}

function readAttachments(raw: Raw, problems: Problem[]): RuntimeInput['validAttachments'] {
  const key = ['cni.dev/valid-attachments', 'cni.dev/attachments'].find(
    (name) => (ownValue(raw, name) ?? null) !== null,
  );
  if (key === undefined) return undefined;
  const result = v.safeParse(Attachments, ownValue(raw, key));
  if (result.success)
    return result.output.map(({ containerID, ifname }) => ({ containerId: containerID, ifName: ifname }));
  problems.push(...problemsOf(result.issues, { path: at('', key), code: CODE }));
  return undefined;
}
