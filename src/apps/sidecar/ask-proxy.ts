import { get } from 'node:http';
import { once } from 'node:events';
import { NetplugError } from '../../base/errors.ts';
import { readProof } from './proxy-proof.ts';
import { type GuardProof, MOST_LISTED } from '../../policy/feed/messages.ts';
import { shortened } from './shortened.ts';

const LISTENERS = '/config_dump?resource=dynamic_listeners';
/** The name is matched by the reader: older proxies know no other way to ask for one. */
const CLUSTERS = '/config_dump?resource=dynamic_active_clusters';
const VERSIONS = '/stats?filter=^(listener_manager.lds|cluster_manager.cds).(version|update_success)$';
const TIMEOUT_MS = 3000;
const MOST_BYTES = 16 * 2 ** 20;

/** Where the proxy of the pod answers questions about itself: never redirected. */
export interface ProxyAdmin {
  readonly host: string;
  readonly port: number;
}

/** Returns a text that is another one once the proxy has other listeners or clusters: far cheaper to ask for than these. */
export async function proxyVersion(admin: ProxyAdmin): Promise<string> {
  return readText(admin, VERSIONS).catch(() => '');
}

/** Asks the proxy of the pod what its configuration shows. One that cannot be asked shows nothing. */
export async function askProxy(admin: ProxyAdmin): Promise<GuardProof> {
  try {
    const [listeners, clusters, info] = await Promise.all(
      [LISTENERS, CLUSTERS, '/server_info'].map(async (path) => readJson(admin, path)),
    );
    return bounded(readProof(listeners, { clusters, proxy: versionIn(info) }));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    return {
      ports: [],
      open: [],
      families: [],
      proxy: '',
      problems: [shortened(`the proxy does not say what it does: ${why}`)],
    };
  }
}

/** What the agent takes of a proof: names in it are as long as others have made them. */
function bounded({ ports, open, families, proxy, problems }: GuardProof): GuardProof {
  return {
    ports: ports.slice(0, MOST_LISTED),
    open: open.slice(0, MOST_LISTED).map(({ port, why }) => ({ port, why: shortened(why) })),
    families,
    proxy,
    problems: problems.slice(0, MOST_LISTED).map(shortened),
  };
}

async function readJson(admin: ProxyAdmin, path: string): Promise<unknown> {
  return JSON.parse(await readText(admin, path));
}

async function readText({ host, port }: ProxyAdmin, path: string): Promise<string> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const request = get({ host, port, path, agent: false, signal, headers: { accept: 'application/json' } });
  const [response] = (await once(request, 'response', { signal })) as [NodeJS.ReadableStream & { statusCode: number }];
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    const piece = Buffer.from(chunk as Buffer);
    chunks.push(piece);
    bytes += piece.length;
    if (bytes > MOST_BYTES) {
      request.destroy();
      throw new NetplugError(
        'sidecar/proxy-unreadable',
        `its answer to ${path} is longer than ${String(MOST_BYTES)} bytes`,
      );
    }
  }
  if (response.statusCode !== 200)
    throw new NetplugError(
      'sidecar/proxy-unreadable',
      `its answer to ${path} has status ${String(response.statusCode)}`,
    );
  return Buffer.concat(chunks).toString('utf8');
}

/** `HASH/1.40.0/Clean/RELEASE/BoringSSL` */
function versionIn(info: unknown): string {
  const version = typeof info === 'object' && info !== null && 'version' in info ? String(info.version) : '';
  return /^[^/]*\/([0-9A-Za-z.+-]{1,40})\//.exec(version)?.[1] ?? '';
}
