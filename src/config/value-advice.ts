import { ownValue } from '../base/own-value.ts';
import { keysOf } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';
import { adviceOnAddress } from './address-advice.ts';

/** Returns a suggestion for a value that is not allowed, or undefined. */
type Advise = (found: unknown, key: string) => string | undefined;

/** Values of other plugins, loggers and languages, with the value of the same meaning here. */
const CALLED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  type: { calico: 'netplug' },
  datastore_type: {
    kubernetes: 'orch',
    k8s: 'orch',
    kdd: 'orch',
    orchestrator: 'orch',
    etcd: 'kvv3',
    etcdv3: 'kvv3',
    etcd3: 'kvv3',
    kv: 'kvv3',
  },
  'policy.type': { k8s: 'orch', kubernetes: 'orch' },
  log_level: {
    warn: 'WARNING',
    trace: 'DEBUG',
    verbose: 'DEBUG',
    notice: 'INFO',
    fatal: 'ERROR',
    panic: 'ERROR',
    critical: 'ERROR',
    none: 'ERROR',
  },
};

/** Rules by path; the first one with a suggestion applies. */
const RULES: readonly (readonly [RegExp, Advise])[] = [
  [/./, adviceOnPlaceholder],
  [/./, (found, key) => (found === null ? `remove ${key}` : undefined)],
  [/^cniVersion$/, adviceOnVersion],
  [/assign_ipv[46]$/, (found) => quoted(adviceOnSwitch(found))],
  [/(^include_default_routes|allow_ip_forwarding|ip_addrs_no_ipam|floating_ips)$/, adviceOnSwitch],
  [/^log_file_max_(size|age|count)$|^num_queues$/, adviceOnAmount],
  [/^mtu$/, (found) => (isOneOf(found, 'auto', 'default', 'detect') ? 'write 0 to leave it to the kernel' : undefined)],
  [/^ipam$/, adviceOnObject],
  [/^(policy|orch)$/, adviceOnObject],
  [/(ipv[46]_pools|readiness_gates)$/, adviceOnList],
  [/^(kv_|orch|readiness_gates|log_file_path)/, adviceOnUrl],
];

/** Returns a hint for a value that is not allowed at the path; undefined when there is no suggestion. */
export function adviceOnFound(path: string, raw: unknown): string | undefined {
  const keys = keysOf(path);
  const found = valueAt(raw, keys);
  const key = String(keys.at(-1) ?? '');
  if (found === undefined) return path === 'ipam' ? 'write "ipam": {"type": "netplug-ipam"}' : undefined;
  const called = typeof found === 'string' ? ownValue(ownValue(CALLED, path), found.toLowerCase()) : undefined;
  if (called !== undefined) return `write "${called}"`;
  for (const [pattern, advise] of RULES) {
    const advice = pattern.test(path) ? advise(found, key) : undefined;
    if (advice !== undefined) return advice;
  }
  const advice = adviceOnAddress(found, { keys, valueAt: (place) => valueAt(raw, place) });
  return advice === `write ${JSON.stringify(found)}` ? undefined : advice;
}

/** Returns the first unfilled placeholder in a text. */
export function placeholderIn(text: string): string | undefined {
  return /__[A-Z][A-Z0-9_]*__|\$\{[^}]*\}|\$\([^)]*\)|\{\{.*?\}\}|<[a-zA-Z][\w-]*>/.exec(text)?.[0];
}

function adviceOnPlaceholder(found: unknown): string | undefined {
  const placeholder = typeof found === 'string' ? placeholderIn(found) : undefined;
  return placeholder === undefined ? undefined : `fill in the placeholder ${placeholder}`;
}

function adviceOnVersion(found: unknown): string | undefined {
  const text = oneOf(found).replace(/^v/i, '');
  const [major, minor] = text.split('.').map(Number);
  if (major === 0 && minor !== undefined) return `write "0.${String(Math.min(minor, 4))}.0"`;
  if (major === undefined || Number.isNaN(major)) return undefined;
  return `write "${major > 1 || (minor ?? 0) > 0 ? '1.1.0' : '1.0.0'}"`;
}

function adviceOnSwitch(found: unknown): string | undefined {
  if (isOneOf(found, 'true', 'yes', 'on', '1', 'enabled', 'enable')) return 'write true';
  return isOneOf(found, 'false', 'no', 'off', '0', 'disabled', 'disable') ? 'write false' : undefined;
}

function quoted(advice: string | undefined): string | undefined {
  return advice?.replace(/\w+$/, '"$&"');
}

const DAYS: Readonly<Record<string, number>> = { h: 1 / 24, hours: 1 / 24, d: 1, days: 1, w: 7, weeks: 7 };
const MEGABYTES: Readonly<Record<string, number>> = { k: 1 / 1024, m: 1, g: 1024 };

/** Suggests a whole number, in megabytes for a size and in days for an age. */
function adviceOnAmount(found: unknown, key: string): string | undefined {
  if (typeof found === 'number') {
    const megabytes = Math.round(found / 1024 / 1024);
    return key === 'log_file_max_size' && megabytes >= 1
      ? `write ${String(megabytes)}; the unit is megabytes`
      : undefined;
  }
  const [, digits, unit = ''] = /^\s*(\d+)\s*([a-z]*)\s*$/i.exec(oneOf(found)) ?? [];
  if (digits === undefined) return undefined;
  const factor =
    key === 'log_file_max_age'
      ? ownValue(DAYS, unit.toLowerCase())
      : ownValue(MEGABYTES, unit.toLowerCase().replace(/i?b$/, ''));
  const amount = Number(digits) * (factor ?? 1);
  return amount >= 1 ? `write ${String(Math.round(amount))}` : undefined;
}

function adviceOnObject(found: unknown): string | undefined {
  if (Array.isArray(found) && found.length === 1 && isRecord(found[0])) return 'write the object without [ ] around it';
  return typeof found === 'string' && /^[\w-]+$/.test(found) ? `write {"type": "${found}"}` : undefined;
}

/** Suggests a list for a string that contains one item, several items, or JSON. */
function adviceOnList(found: unknown): string | undefined {
  if (typeof found !== 'string') return undefined;
  const items = found
    .replaceAll(/[[\]"]/g, '')
    .split(/[,;\s]+/)
    .filter((item) => item !== '');
  return items.length === 0 ? undefined : `write ${JSON.stringify(items)}`;
}

function isOneOf(found: unknown, ...words: readonly string[]): boolean {
  return words.includes(oneOf(found).toLowerCase());
}

/** Returns a string, number or boolean as text; an empty text for other values. */
function oneOf(found: unknown): string {
  return typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean' ? String(found) : '';
}

function valueAt(raw: unknown, keys: readonly (string | number)[]): unknown {
  let value = raw;
  for (const key of keys) {
    if (Array.isArray(value)) value = value[Number(key)];
    else value = isRecord(value) ? ownValue(value, String(key)) : undefined;
  }
  return value;
}

/** Returns a suggestion for a URL, a list of URLs, a path or a domain that is not allowed. */
function adviceOnUrl(found: unknown, key: string): string | undefined {
  if (key === 'kv_endpoints') return adviceOnEndpoints(found);
  if (typeof found !== 'string') return undefined;
  if (key === 'log_file_path' || key === 'orchconfig') return adviceOnPath(found);
  const { host, path } = partsOf(found);
  if (host === '') return undefined;
  if (key === 'kv_discovery_srv') return `write "${host.replace(/:\d+$/, '')}"`;
  if (key === 'kv_authority')
    return `write kv_endpoints as "${found.startsWith('https:') ? 'https' : 'http'}://${host}" instead`;
  const scheme = key === 'orch_api_root' || /:6?443$/.test(host) ? 'https' : 'http';
  return found.includes('://') ? undefined : `write "${scheme}://${host}${path}"`;
}

function adviceOnEndpoints(found: unknown): string | undefined {
  const list: unknown[] = Array.isArray(found) ? found : typeof found === 'string' ? found.split(/[,;\s]+/) : [];
  const texts = list.filter((text) => typeof text === 'string');
  const hosts = texts.map((text) => ({ text, ...partsOf(text) })).filter(({ host }) => host !== '');
  const urls = hosts.map(({ text, host }) => `${text.startsWith('https:') ? 'https' : 'http'}://${host}`);
  const isHttp = hosts.every(({ text }) => !text.includes('://') || /^https?:/.test(text));
  return urls.length === 0 || !isHttp ? undefined : `write "${urls.join(',')}"`;
}

function adviceOnPath(found: string): string | undefined {
  if (found.startsWith('file://')) return `write "${found.slice('file://'.length)}"`;
  return /^[~.]/.test(found) ? undefined : `write "/${found}"`;
}

/** Returns host with port, and path, without user and password; empty texts when the text is not a URL. */
function partsOf(text: string): { host: string; path: string } {
  const [, host = '', path = ''] =
    /^(?:[a-z]+:\/\/)?(?:[^/@\s]*@)?([\w.-]+(?::\d+)?|\[[\da-f:.]+\](?::\d+)?)(\/\S*)?$/i.exec(text) ?? [];
  return { host, path };
}
