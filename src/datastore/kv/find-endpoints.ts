import { Resolver } from 'node:dns/promises';
import { errnoOf, NetplugError } from '../../base/errors.ts';
import type { KvEndpoints } from '../../netconf/connection.ts';
import { outOfTime } from '../../base/out-of-time.ts';

/**
 * The origins to talk to, best first.
 * @throws store/config-invalid for an unusable URL or a failed discovery
 */
export async function findEndpoints(endpoints: KvEndpoints, signal: AbortSignal): Promise<readonly string[]> {
  if (endpoints.from === 'srv') return discover(endpoints.domain, signal);
  if (endpoints.urls.length > 0) return endpoints.urls.map(originOf);
  throw invalid('no endpoint is given', 'Set kv_endpoints or kv_discovery_srv');
}

const SERVICES = [
  { service: '_etcd-client-ssl._tcp', scheme: 'https' },
  { service: '_etcd-client._tcp', scheme: 'http' },
] as const;

async function discover(domain: string, signal: AbortSignal): Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: 1500, tries: 2 });
  const cancel = (): void => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const found = await Promise.allSettled(
      SERVICES.map(async ({ service, scheme }) => {
        const records = await resolver.resolveSrv(`${service}.${domain}`);
        return records
          .sort((a, b) => (a.priority === b.priority ? b.weight - a.weight : a.priority - b.priority))
          .map(({ name, port }) => originOf(`${scheme}://${name}:${String(port)}`));
      }),
    );
    if (signal.aborted) throw outOfTime(signal, `looking up the SRV records of "${domain}"`);
    const origins = found.flatMap((lookup) => (lookup.status === 'fulfilled' ? lookup.value : []));
    if (origins.length > 0) return origins;
    const causes = found.flatMap((lookup): unknown[] => (lookup.status === 'rejected' ? [lookup.reason] : []));
    const reasons = [...new Set(causes.map((cause) => errnoOf(cause) ?? String(cause)))].join(', ');
    throw invalid(
      `the SRV records of domain "${domain}" cannot be found (${reasons === '' ? 'no record' : reasons})`,
      `Check kv_discovery_srv, and the records ${SERVICES.map(({ service }) => `${service}.${domain}`).join(' and ')}`,
      causes[0],
    );
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

function originOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.hostname !== '') return url.origin;
  throw invalid(`"${text}" is no endpoint URL`, 'Write endpoints as http://host:port or https://host:port');
}

function invalid(what: string, hint: string, cause?: unknown): NetplugError {
  return new NetplugError('store/config-invalid', `Cannot connect to the kv datastore: ${what}`, { hint, cause });
}
