import type { Datastore } from '../config/connection.ts';
import { given } from '../base/given.ts';

export interface ConflistOptions {
  readonly name: string;
  readonly datastore: Datastore;
  readonly orchAccess: ConflistAccess;
  /** Undefined for the default of the kernel. */
  readonly mtu?: number | undefined;
  /** Whether pods get addresses of IPv6 as well; `ipam` has the answer when it is given. */
  readonly assignIpv6?: boolean;
  /** The address manager, in place of `netplug-ipam`. */
  readonly ipam?: object;
  /** Further keys of the plugin. */
  readonly further?: object;
  /** Undefined turns file logging off. */
  readonly logFilePath: string | undefined;
  readonly chained: readonly ChainedPlugin[];
  /** Entries of further plugins behind them. */
  readonly furtherPlugins?: readonly object[] | undefined;
  /** Whether the plugin reads labels and annotations of pods from Kubernetes. */
  readonly policy?: 'orch' | 'none';
}

/** Access of the plugin to the Kubernetes API; paths are those of the host. */
export type ConflistAccess =
  | { readonly by: 'none' }
  | { readonly by: 'file'; readonly path: string }
  | { readonly by: 'url'; readonly url: string };

export type ChainedPlugin = keyof typeof CHAINED;

const CHAINED = {
  portmap: { type: 'portmap', snat: true, capabilities: { portMappings: true } },
  bandwidth: { type: 'bandwidth', capabilities: { bandwidth: true } },
} as const;

/**
 * Older runtimes read only `cniVersion` and fail on an unknown one; runtimes of specification 1.1.0 choose from
 * `cniVersions`.
 */
const VERSIONS = { cniVersion: '1.0.0', cniVersions: ['0.3.1', '0.4.0', '1.0.0', '1.1.0'] } as const;

/** Returns the conflist for the options. Pure. */
export function renderConflist(options: ConflistOptions): object {
  const { mtu, logFilePath, policy, further, assignIpv6 } = options;
  const ownIpam = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: String(assignIpv6 ?? false) };
  return {
    ...VERSIONS,
    name: options.name,
    plugins: [
      {
        type: 'netplug',
        ...datastoreKeys(options.datastore),
        ...orchKeys(options.orchAccess),
        log_level: 'INFO',
        ...given({ log_file_path: logFilePath, mtu, policy: policy === 'orch' ? { type: policy } : undefined }),
        ...further,
        ipam: options.ipam ?? ownIpam,
      },
      ...options.chained.map((type) => CHAINED[type]),
      ...(options.furtherPlugins ?? []),
    ],
  };
}

function datastoreKeys(datastore: Datastore): object {
  if (datastore.type === 'orch') return { datastore_type: 'orch' };
  const { endpoints, keyFile, certFile, caCertFile } = datastore.connection;
  return {
    datastore_type: 'kvv3',
    ...(endpoints.from === 'list'
      ? { kv_endpoints: endpoints.urls.join(',') }
      : { kv_discovery_srv: endpoints.domain }),
    ...given({ kv_key_file: keyFile, kv_cert_file: certFile, kv_ca_cert_file: caCertFile }),
  };
}

function orchKeys(access: ConflistAccess): object {
  if (access.by === 'none') return {};
  return { orch: access.by === 'file' ? { orchconfig: access.path } : { orch_api_root: access.url } };
}
