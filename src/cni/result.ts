import type { Address } from '../net/address.ts';
import { tryReadCidr } from '../net/cidr.ts';
import type { CniVersion } from '../config/netconf.ts';

/** A result of CNI 1.1.0, from which those of older versions are rendered. */
export interface CniResult {
  readonly interfaces: readonly ResultInterface[];
  readonly ips: readonly ResultIp[];
  readonly routes: readonly ResultRoute[];
  readonly dns: Readonly<Record<string, unknown>>;
}

export interface ResultInterface {
  readonly name: string;
  readonly mac?: string;
  /** Bytes. */
  readonly mtu?: number;
  /** Path of the namespace; absent for interfaces of the host. */
  readonly sandbox?: string;
}

export interface ResultIp {
  /** Address with prefix length. */
  readonly address: string;
  readonly gateway?: string;
  /** Index into `interfaces`. */
  readonly interface?: number;
}

export interface ResultRoute {
  readonly dst: string;
  readonly gw?: string;
}

/** Renders the JSON document for the runtime in the given CNI version. */
export function renderResult(result: CniResult, version: CniVersion): Record<string, unknown> {
  if (version === '0.1.0' || version === '0.2.0') return renderByFamily(result, version);
  const isOld = version.startsWith('0.');
  const interfaces = result.interfaces.map(({ mtu, ...rest }) =>
    version === '1.1.0' && mtu !== undefined ? { ...rest, mtu } : rest,
  );
  const ips = result.ips.map((ip) => (isOld ? { version: isV6(ip.address) ? '6' : '4', ...ip } : ip));
  return {
    cniVersion: version,
    ...(interfaces.length === 0 ? {} : { interfaces }),
    ips,
    ...(result.routes.length === 0 ? {} : { routes: result.routes }),
    dns: result.dns,
  };
}

function renderByFamily({ ips, routes, dns }: CniResult, version: CniVersion): Record<string, unknown> {
  const side = (wantsV6: boolean): object | undefined => {
    const ip = ips.find(({ address }) => isV6(address) === wantsV6);
    if (ip === undefined) return undefined;
    const own = routes.filter(({ dst }) => isV6(dst) === wantsV6);
    return {
      ip: ip.address,
      ...(ip.gateway === undefined ? {} : { gateway: ip.gateway }),
      ...(own.length === 0 ? {} : { routes: own }),
    };
  };
  const ip4 = side(false);
  const ip6 = side(true);
  return { cniVersion: version, ...(ip4 === undefined ? {} : { ip4 }), ...(ip6 === undefined ? {} : { ip6 }), dns };
}

/** Parses a result of any CNI version; undefined when it is not a result. */
export function parseResult(raw: unknown): CniResult | undefined {
  if (!isJsonObject(raw)) return undefined;
  const sides = [raw['ip4'], raw['ip6']].filter(isJsonObject);
  const ips = sides.length > 0 ? sides.map((side) => ({ ...side, address: side['ip'] })) : recordsOf(raw['ips']);
  const routes = sides.length > 0 ? sides.flatMap((side) => recordsOf(side['routes'])) : recordsOf(raw['routes']);
  const readIps = ips.map(parseIp);
  if (readIps.some((ip) => ip === undefined)) return undefined;
  return {
    interfaces: recordsOf(raw['interfaces']).map((link) => ({
      name: textOf(link['name']) ?? '',
      ...optional('mac', textOf(link['mac'])),
      ...optional('sandbox', textOf(link['sandbox'])),
      ...(typeof link['mtu'] === 'number' && link['mtu'] > 0 ? { mtu: link['mtu'] } : {}),
    })),
    ips: readIps.filter((ip) => ip !== undefined),
    routes: routes.flatMap((route) => {
      const dst = textOf(route['dst']);
      return dst === undefined ? [] : [{ dst, ...optional('gw', textOf(route['gw'])) }];
    }),
    dns: isJsonObject(raw['dns']) ? raw['dns'] : {},
  };
}

/** Returns the addresses of the result, without their prefix lengths. */
export function addressesIn(ips: CniResult['ips']): readonly Address[] {
  return ips.flatMap(({ address }) => tryReadCidr(address)?.address ?? []);
}

function parseIp(ip: Record<string, unknown>): ResultIp | undefined {
  const address = textOf(ip['address']);
  if (address === undefined || tryReadCidr(address) === undefined) return undefined;
  const index = ip['interface'];
  return {
    address,
    ...optional('gateway', textOf(ip['gateway'])),
    ...(typeof index === 'number' ? { interface: index } : {}),
  };
}

export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function recordsOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function optional<K extends string>(key: K, value: string | undefined): Partial<Record<K, string>> {
  // A computed key widens to an index signature; the record holds exactly this key or none.
  return (value === undefined ? {} : { [key]: value }) as Partial<Record<K, string>>;
}

function isV6(text: string): boolean {
  return text.includes(':');
}
