import { readFile } from 'node:fs/promises';
import { ownValue } from '../../../base/own-value.ts';
import { NetplugError, reasonOf } from '../../../base/errors.ts';
import type { Datastore, OrchSettings } from '../../../config/connection.ts';
import { faultsOf } from '../../../install/cluster/checks/certificate-checks.ts';
import { chooseConnection, type ChosenConnection } from '../../../config/choose-connection.ts';
import type { ClusterDatastore } from '../../../install/cluster/settings.ts';
import { readApiAccess, readConnection, readConnectionFacts } from '../connection.ts';
import type { Context } from '../ports.ts';

const KV_SERVERS = ['kv_endpoints', 'kv_discovery_srv', 'kv_authority'];

export interface ClusterConnection {
  readonly api: OrchSettings;
  readonly datastore: ClusterDatastore;
  /** The connection to etcd; undefined with the API as datastore. */
  readonly kv: Extract<Datastore, { type: 'kvv3' }> | undefined;
  /** Certificates of etcd in base64, by their keys in the Secret. */
  readonly certificates: Readonly<Record<string, string>> | undefined;
  readonly certificateFaults: readonly string[];
}

/**
 * Returns how to reach the API of the cluster, and the datastore of the installation: that of the environment unless the user
 * chose one. @throws cli/usage, netconf/invalid, store/config-invalid
 */
export async function readClusterConnection(
  context: Context,
  wanted: 'orch' | 'kvv3' | undefined,
): Promise<ClusterConnection> {
  const { datastore } = wanted === 'kvv3' ? await readEtcd(context) : await readConnection(context, { use: 'cluster' });
  if (datastore.type === 'orch') {
    if (wanted === 'kvv3') throw noEndpoints();
    return inApi(datastore.orch);
  }
  const api = await readApiAccess(context);
  if (wanted === 'orch') return inApi(api);
  const { endpoints, ...files } = datastore.connection;
  if (endpoints.from === 'srv') throw refused('kv_discovery_srv', 'Write the endpoints in KV_ENDPOINTS');
  const pems = { 'ca.crt': files.caCertFile, 'tls.crt': files.certFile, 'tls.key': files.keyFile };
  const given = Object.entries(pems).flatMap(([key, path]) => (path === undefined ? [] : [{ key, path }]));
  if (given.length > 0 && given.length < Object.keys(pems).length) {
    throw refused('some certificates', 'Set KV_CA_CERT_FILE, KV_CERT_FILE and KV_KEY_FILE, or none of them');
  }
  const hasTls = given.length > 0;
  const read = await readPems(given, context);
  return {
    api,
    datastore: { type: 'kvv3', endpoints: endpoints.urls.join(','), tls: hasTls ? 'secret' : 'none' },
    kv: datastore,
    certificates: hasTls ? read.certificates : undefined,
    certificateFaults: read.faults,
  };
}

function inApi(api: OrchSettings): ClusterConnection {
  return { api, datastore: { type: 'orch' }, kv: undefined, certificates: undefined, certificateFaults: [] };
}

/** Reads the etcd that the file of --config or the variables name. @throws cli/usage, netconf/invalid */
async function readEtcd(context: Context): Promise<ChosenConnection> {
  const { config, env } = context;
  if (config === undefined && !KV_SERVERS.some((key) => (ownValue(env, key.toUpperCase()) ?? '') !== ''))
    throw noEndpoints();
  const flags = { file: undefined, context: undefined };
  return chooseConnection({ ...(await readConnectionFacts(context)), flags }, 'cluster');
}

async function readPems(
  files: readonly { readonly key: string; readonly path: string }[],
  { ports }: Context,
): Promise<{ readonly certificates: Readonly<Record<string, string>>; readonly faults: readonly string[] }> {
  const pems = new Map<string, string>();
  const faults: string[] = [];
  for (const { key, path } of files) {
    try {
      pems.set(key, await readFile(path, 'utf8'));
    } catch (cause) {
      faults.push(`${path}: cannot be read: ${reasonOf(cause)}`);
    }
  }
  const pathOf = new Map(files.map(({ key, path }) => [key, path]));
  for (const { key, problem, severity } of faultsOf(pems, ports.clock.now())) {
    if (severity === undefined) faults.push(`${pathOf.get(key) ?? key}: ${problem}`);
  }
  const certificates = Object.fromEntries([...pems].map(([key, pem]) => [key, Buffer.from(pem).toString('base64')]));
  return { certificates, faults };
}

function refused(what: string, hint: string): NetplugError {
  return new NetplugError(
    'cli/usage',
    `Cannot install netplug with ${what}: the programs in the cluster do not use it`,
    { hint },
  );
}

function noEndpoints(): NetplugError {
  return new NetplugError('cli/usage', 'Cannot use --datastore kvv3: the environment names no etcd', {
    hint: 'Set KV_ENDPOINTS, and with TLS KV_CA_CERT_FILE, KV_CERT_FILE and KV_KEY_FILE',
  });
}
