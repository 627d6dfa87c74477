import { type Client, createClient, type Transport } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { Lease, Watch } from '../../../proto/gen/etcd_pb.js';
import { Http2Connection } from './http2-connection.ts';
import { unaryOver } from './http2-unary.ts';
import type { EtcdTls } from './tls-files.ts';
import type { OpenUnary, UnaryConnection } from './unary-connection.ts';
import { type UnaryKv, unaryKv } from './unary-kv.ts';

/** One endpoint and the connections to it, made when first used and again when lost. */
export interface EtcdEndpoint {
  readonly origin: string;
  /** For the KV service. */
  readonly unary: UnaryConnection;
  readonly kv: UnaryKv;
  /** For leases and watches. The same connection as `unary` unless the client has `openUnary`. */
  readonly connection: Http2Connection;
  readonly lease: Client<typeof Lease>;
  readonly watch: Client<typeof Watch>;
}

export interface EndpointOptions {
  /** Empty for an unencrypted origin. */
  readonly tls: EtcdTls;
  readonly connectMs: number;
  readonly openUnary: OpenUnary | undefined;
}

/** Returns the endpoint with that origin, which connects on first use. */
export function openEndpoint(origin: string, { tls, connectMs, openUnary }: EndpointOptions): EtcdEndpoint {
  const connection = new Http2Connection(origin, { tls, connectMs });
  const unary = openUnary?.(origin, { connectMs }) ?? unaryOver(connection);
  return Object.assign(streamsOver(connection), { origin, connection, unary, kv: unaryKv(unary) });
}

/** The clients are made on first use: a client for one call needs none of them. */
function streamsOver(connection: Http2Connection): Pick<EtcdEndpoint, 'lease' | 'watch'> {
  const transport = (sessionManager: Http2Connection['forWatches']): Transport =>
    createGrpcTransport({ baseUrl: connection.authority, acceptCompression: [], sessionManager });
  let lease: EtcdEndpoint['lease'] | undefined;
  let watch: EtcdEndpoint['watch'] | undefined;
  return {
    get lease() {
      return (lease ??= createClient(Lease, transport(connection)));
    },
    get watch() {
      return (watch ??= createClient(Watch, transport(connection.forWatches)));
    },
  };
}

/** Returns the connection that requests of that method use. */
export function connectionFor(
  method: string,
  { unary, connection }: EtcdEndpoint,
): Pick<UnaryConnection, 'connect' | 'suspect'> {
  return method === 'Range' || method === 'Txn' ? unary : connection;
}

export function closeEndpoint({ unary, connection }: EtcdEndpoint): void {
  unary.close();
  connection.close();
}
