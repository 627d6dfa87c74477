import { NetplugError } from '../../base/errors.ts';
import type { KvConnection } from '../../config/connection.ts';
import { encrypted, isUnencrypted, tlsOptionsOf } from '../../config/require-tls.ts';
import { discoverEndpoints } from './discover-endpoints.ts';

/**
 * Returns the origins to talk to, best first. All of them are encrypted where a TLS file is configured, and where
 * `wasEncrypted` says that an earlier discovery of the same connection found encrypted ones.
 * @throws store/config-invalid for an unusable or a plain URL, and for a discovery without a usable record;
 * store/unavailable while DNS does not answer
 */
export async function findEndpoints(
  connection: KvConnection,
  { wasEncrypted, signal }: { readonly wasEncrypted: boolean; readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const { endpoints } = connection;
  const options = tlsOptionsOf(connection);
  if (endpoints.from === 'srv') {
    const { domain } = endpoints;
    return discoverEndpoints({ domain, mustEncrypt: wasEncrypted || options.length > 0 }, signal);
  }
  if (endpoints.urls.length === 0) throw invalid('no endpoint is given', 'Set kv_endpoints or kv_discovery_srv');
  const origins = endpoints.urls.map(originOf);
  const plain = origins.find(isUnencrypted);
  if (plain === undefined || options.length === 0) return origins;
  throw invalid(
    `"${plain}" is not encrypted, while ${options.join(' and ')} ask for TLS`,
    `Write "${encrypted(plain)}" in kv_endpoints, or remove ${options.join(' and ')}`,
  );
}

function originOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.hostname !== '') return url.origin;
  throw invalid(`"${text}" is no endpoint URL`, 'Write endpoints as http://host:port or https://host:port');
}

function invalid(what: string, hint: string): NetplugError {
  return new NetplugError('store/config-invalid', `Cannot connect to the kv datastore: ${what}`, { hint });
}
