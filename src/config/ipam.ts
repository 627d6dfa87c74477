import type * as v from 'valibot';
import { ownValue } from '../base/own-value.ts';
import { didYouMean, nearMiss } from '../base/near-miss.ts';
import { at, type Findings, missingOrNotAllowed, foundNotAllowed } from '../base/problem.ts';
import { isRecord, type PartialOutput, readEntries } from '../model/read-schema.ts';
import type { Family } from '../net/address.ts';
import { decideHostLocal } from './host-local.ts';
import { HOST_LOCAL_FIELDS, IPAM_FIELDS, POOL_FIELDS, RangeSchema, RouteSchema, TYPE_FIELD } from './ipam-fields.ts';
import type { Ipam, PoolChoice } from './netconf.ts';
import { readPools } from './pools.ts';
import { checkKeys } from './unknown-keys.ts';

type Raw = Readonly<Record<string, unknown>>;
const CODE = 'netconf/invalid';
const PLACE = { path: 'ipam', code: CODE } as const;

/** The parts of the configuration outside the section that affect it. */
export interface IpamContext {
  readonly as: 'network' | 'ipam';
  /** Whether the runtime passes ranges of its own to `host-local`. */
  readonly hasRuntimeRanges: boolean;
}

/** Names that are not usable address managers, with the intended one. */
const CALLED: Readonly<Record<string, string>> = { netplug: 'netplug-ipam', 'calico-ipam': 'netplug-ipam' };

/** Decodes the section `ipam`; undefined when a problem was added. */
export function decideIpam(raw: unknown, { as, hasRuntimeRanges }: IpamContext, findings: Findings): Ipam | undefined {
  const { problems } = findings;
  if (!isRecord(raw)) {
    problems.push({ path: 'ipam', message: missingOrNotAllowed(raw, 'an object with "type"'), code: CODE });
    return undefined;
  }
  const { type } = readEntries(TYPE_FIELD, raw, { ...PLACE, problems }).values;
  if (type === undefined) return undefined;
  const meant = ownValue(CALLED, type) ?? nearMiss(type, ['netplug-ipam', 'host-local']);
  if (type === '' || type.includes('/') || (meant !== undefined && meant !== type)) {
    const hint = meant === undefined ? {} : { hint: didYouMean(meant) };
    const message = foundNotAllowed(type, '"netplug-ipam", "host-local" or the name of another plugin');
    problems.push({ path: 'ipam.type', message, code: CODE, ...hint });
    return undefined;
  }
  if (as === 'ipam' && type !== 'netplug-ipam') {
    const message = foundNotAllowed(type, '"netplug-ipam", because netplug-ipam was called');
    problems.push({ path: 'ipam.type', message, code: CODE });
    return undefined;
  }
  if (type !== 'netplug-ipam' && type !== 'host-local') return { type: 'other', plugin: type };
  checkKeys(raw, { keys: Object.keys(IPAM_FIELDS), path: 'ipam', strictness: 'own-keys-only' }, findings);
  return type === 'netplug-ipam' ? decidePools(raw, findings) : decideRanges(raw, hasRuntimeRanges, findings);
}

function decidePools(raw: Raw, findings: Findings): Ipam {
  const { problems } = findings;
  const { values } = readEntries(POOL_FIELDS, raw, { ...PLACE, problems });
  refuseKeys(
    raw,
    Object.keys(HOST_LOCAL_FIELDS),
    {
      message: 'belongs to host-local, not to netplug-ipam',
      hint: 'name IP pools in ipam.ipv4_pools instead, or write "type": "host-local"',
    },
    findings,
  );
  const v4 = choosePools({ family: 4, assign: values.assign_ipv4, pools: values.ipv4_pools }, findings);
  const v6 = choosePools({ family: 6, assign: values.assign_ipv6, pools: values.ipv6_pools }, findings);
  if (values.assign_ipv4 === false && values.assign_ipv6 === false) {
    const message = 'neither IPv4 nor IPv6 addresses are assigned';
    const hint = 'set ipam.assign_ipv4 or ipam.assign_ipv6 to "true"';
    problems.push({ path: 'ipam.assign_ipv4', message, hint, code: CODE });
  }
  return { type: 'netplug-ipam', v4, v6 };
}

function choosePools(
  { family, assign, pools }: { family: Family; assign: boolean | undefined; pools: readonly string[] | undefined },
  { problems, warnings }: Findings,
): PoolChoice {
  const path = `ipam.ipv${String(family)}_pools`;
  const switchName = `assign_ipv${String(family)}`;
  // The switch is undefined when it could not be read; the pools are then checked as well.
  if (assign !== false) return { assign: true, pools: readPools(pools, { path, family }, { problems }) };
  if (pools !== undefined && pools.length > 0) {
    warnings.push({ path, message: `${path} has no effect: ipam.${switchName} is "false"` });
  }
  return { assign: false, pools: undefined };
}

function decideRanges(raw: Raw, hasRuntimeRanges: boolean, findings: Findings): Ipam {
  const { values } = readEntries(HOST_LOCAL_FIELDS, raw, { ...PLACE, problems: findings.problems });
  const message = 'needs "type": "netplug-ipam"; host-local has no pools';
  refuseKeys(raw, ['ipv4_pools', 'ipv6_pools'], { message }, findings);
  for (const key of ['assign_ipv4', 'assign_ipv6']) {
    if (!Object.hasOwn(raw, key)) continue;
    findings.warnings.push({ path: at('ipam', key), message: `ipam.${key} has no effect with host-local` });
  }
  const ranges = nestedRecords(raw['ranges'], 2).map(([place, range]) => {
    const path = at('ipam', 'ranges', ...place);
    checkKeys(range, { keys: Object.keys(RangeSchema.entries), path, strictness: 'own-keys-only' }, findings);
    return { place, path, ...readAgain(RangeSchema.entries, range) };
  });
  const routes = nestedRecords(raw['routes'], 1).map(([place, route]) => {
    const path = at('ipam', 'routes', ...place);
    checkKeys(route, { keys: Object.keys(RouteSchema.entries), path, strictness: 'own-keys-only' }, findings);
    return { path, ...readAgain(RouteSchema.entries, route) };
  });
  const hasRoutes = Object.hasOwn(raw, 'routes');
  const isEmpty = Array.isArray(raw['ranges']) && raw['ranges'].length === 0;
  const hasRanges = hasRuntimeRanges || (Object.hasOwn(raw, 'ranges') && !isEmpty);
  return decideHostLocal({ ...values, ranges, routes: hasRoutes ? routes : undefined }, hasRanges, findings);
}

/** Reads each range separately, so that an invalid one does not hide the others. Its problems were reported before. */
function readAgain<const E extends v.ObjectEntries>(entries: E, raw: Raw): PartialOutput<E> {
  return readEntries(entries, raw, { ...PLACE, problems: [] }).values;
}

// oxlint-disable-next-line max-params -- an options object would only rename the four
function refuseKeys(
  raw: Raw,
  keys: readonly string[],
  why: { message: string; hint?: string },
  { problems }: Findings,
): void {
  for (const key of keys) {
    if (Object.hasOwn(raw, key)) problems.push({ path: at('ipam', key), ...why, code: CODE });
  }
}

/** Returns the objects inside `depth` levels of arrays, each with its indexes. */
function nestedRecords(raw: unknown, depth: number): [number[], Raw][] {
  if (depth === 0) return isRecord(raw) ? [[[], raw]] : [];
  if (!Array.isArray(raw)) return [];
  return raw.flatMap((item: unknown, index) =>
    nestedRecords(item, depth - 1).map(([place, record]): [number[], Raw] => [[index, ...place], record]),
  );
}
