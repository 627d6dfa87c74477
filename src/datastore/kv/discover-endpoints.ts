import { Resolver } from 'node:dns/promises';
import { errnoOf, NetplugError } from '../../base/errors.ts';
import { timedOut } from '../../base/timed-out.ts';

const ENCRYPTED = { service: '_etcd-client-ssl._tcp', scheme: 'https' } as const;
const PLAIN = { service: '_etcd-client._tcp', scheme: 'http' } as const;
type Service = typeof ENCRYPTED | typeof PLAIN;

/** Answer of DNS about one service: its origins, best first, that there are none, or nothing. */
type Found =
  | { readonly kind: 'origins'; readonly origins: readonly string[] }
  | { readonly kind: 'none' | 'unknown'; readonly reason: string; readonly cause: unknown };

/**
 * Returns the origins that the SRV records of the domain name, best first. The records of one service are used, never
 * both: the encrypted ones where they exist. Plain ones count only when DNS says that there are no encrypted ones and
 * `mustEncrypt` does not forbid them, so that a lost answer never leads to an unencrypted connection.
 * @throws store/config-invalid when there is no usable record, store/unavailable while DNS does not answer
 */
export async function discoverEndpoints(
  { domain, mustEncrypt }: { readonly domain: string; readonly mustEncrypt: boolean },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const services: readonly Service[] = mustEncrypt ? [ENCRYPTED] : [ENCRYPTED, PLAIN];
  const resolver = new Resolver({ timeout: 1500, tries: 2 });
  const cancel = (): void => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const found = await Promise.all(services.map(async (service) => lookUp(resolver, service, domain)));
    if (signal.aborted) throw timedOut(signal, `looking up the SRV records of "${domain}"`);
    for (const [index, { service }] of services.entries()) {
      const answer = found[index];
      if (answer?.kind === 'origins') return answer.origins;
      if (answer?.kind === 'unknown') throw unanswered(`${service}.${domain}`, answer);
    }
    throw nothingFound(domain, found, mustEncrypt);
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

async function lookUp(resolver: Resolver, { service, scheme }: Service, domain: string): Promise<Found> {
  try {
    const records = await resolver.resolveSrv(`${service}.${domain}`);
    const origins = records
      .sort((a, b) => (a.priority === b.priority ? b.weight - a.weight : a.priority - b.priority))
      // RFC 2782: the root as target says that the service does not exist.
      .filter(({ name }) => name !== '' && name !== '.')
      .map(({ name, port }) => new URL(`${scheme}://${name}:${String(port)}`).origin);
    return origins.length > 0 ? { kind: 'origins', origins } : { kind: 'none', reason: 'no record', cause: undefined };
  } catch (cause) {
    const reason = errnoOf(cause) ?? String(cause);
    return { kind: /^(ENOTFOUND|ENODATA)$/.test(reason) ? 'none' : 'unknown', reason, cause };
  }
}

function nothingFound(domain: string, found: readonly Found[], mustEncrypt: boolean): NetplugError {
  const absent = found.flatMap((answer) => (answer.kind === 'origins' ? [] : [answer]));
  const reasons = [...new Set(absent.map(({ reason }) => reason))].join(', ');
  const names = (mustEncrypt ? [ENCRYPTED] : [ENCRYPTED, PLAIN]).map(({ service }) => `${service}.${domain}`);
  const what = mustEncrypt ? 'an encrypted endpoint is required, and the SRV records' : 'the SRV records';
  return new NetplugError(
    'store/config-invalid',
    `Cannot connect to the kv datastore: ${what} of domain "${domain}" cannot be found (${reasons})`,
    {
      hint: `Check kv_discovery_srv, and the ${mustEncrypt ? 'record' : 'records'} ${names.join(' and ')}`,
      cause: absent[0]?.cause,
    },
  );
}

function unanswered(
  name: string,
  { reason, cause }: { readonly reason: string; readonly cause: unknown },
): NetplugError {
  return new NetplugError(
    'store/unavailable',
    `Cannot connect to the kv datastore: DNS does not say whether there are SRV records ${name} (${reason})`,
    { hint: 'Check the name servers of this machine, then try again', cause },
  );
}
