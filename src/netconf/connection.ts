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

export type Datastore = { readonly type: 'kvv3'; readonly connection: KvConnection } | { readonly type: 'orch' };
