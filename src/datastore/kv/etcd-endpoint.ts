import { type ConnectionOptions, Http2Connection } from './http2-connection.ts';
import { type UnaryKv, unaryKv, type UnaryLease, unaryLease } from './unary-kv.ts';

/** One endpoint and the connection to it, made when first used and again when lost. */
export interface EtcdEndpoint {
  readonly origin: string;
  readonly kv: UnaryKv;
  readonly lease: UnaryLease;
  readonly connection: Http2Connection;
}

/** Returns the endpoint with that origin, which connects on first use. */
export function openEndpoint(origin: string, options: ConnectionOptions): EtcdEndpoint {
  const connection = new Http2Connection(origin, options);
  return { origin, connection, kv: unaryKv(connection), lease: unaryLease(connection) };
}
