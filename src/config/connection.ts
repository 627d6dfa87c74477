import type { KubeconfigSource } from '../model/kubeconfig-source.ts';

/** The connection to a kv datastore, from current, deprecated and default options. */
export interface KvConnection {
  readonly endpoints: KvEndpoints;
  /** A path. Key and certificate are both set or both unset, and enable mutual TLS. */
  readonly keyFile: string | undefined;
  readonly certFile: string | undefined;
  /** A path. The file may contain several root certificates; each is trusted. */
  readonly caCertFile: string | undefined;
}

export type KvEndpoints =
  | { readonly from: 'list'; readonly urls: readonly string[] }
  | { readonly from: 'srv'; readonly domain: string };

export type Datastore =
  | { readonly type: 'kvv3'; readonly connection: KvConnection; readonly origin?: ConnectionOrigin }
  | { readonly type: 'orch'; readonly orch: OrchSettings };

/** Flag, variable or file behind a connection, with which errors about it begin. Only netplugctl has a choice. */
export interface ConnectionOrigin {
  /** The flag, variable or file. */
  readonly from: string;
  readonly why: string;
  /** Hint for when these credentials do not suffice; undefined leaves the hint of the error. */
  readonly ifRefused: string | undefined;
}

/** Access to the orchestrator's API, and the node whose pod CIDR is used. */
export interface OrchSettings {
  readonly orchconfig: string | undefined;
  readonly apiRoot: string | undefined;
  /** Only in netplugctl, and only where neither `orchconfig` nor `apiRoot` is set. */
  readonly kubeconfig?: KubeconfigSource | undefined;
  readonly nodeName: string | undefined;
  readonly origin?: ConnectionOrigin;
}
