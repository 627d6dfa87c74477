import type { KubeconfigSource } from '../model/kubeconfig-source.ts';

/** How to reach a kv datastore, decided once from new, deprecated and default options. */
export interface KvConnection {
  readonly endpoints: KvEndpoints;
  /** Paths; key and certificate come together and enable mutual TLS. */
  readonly keyFile: string | undefined;
  readonly certFile: string | undefined;
  /** May hold several root certificates; each is trusted. */
  readonly caCertFile: string | undefined;
}

export type KvEndpoints =
  | { readonly from: 'list'; readonly urls: readonly string[] }
  | { readonly from: 'srv'; readonly domain: string };

export type Datastore =
  | { readonly type: 'kvv3'; readonly connection: KvConnection }
  | { readonly type: 'orch'; readonly orch: OrchSettings };

/** How to reach the orchestrator's API, and whose pod CIDR to ask it for. */
export interface OrchSettings {
  readonly orchconfig: string | undefined;
  readonly apiRoot: string | undefined;
  /** Only in netplugctl, and only where neither `orchconfig` nor `apiRoot` is set. */
  readonly kubeconfig?: KubeconfigSource | undefined;
  readonly nodeName: string | undefined;
}
