import { Http2Connection } from './http2-connection.ts';
import { unaryOver } from './http2-unary.ts';
import type { OpenUnary, UnaryConnection, UnaryOptions } from './unary-connection.ts';
import { type UnaryKv, unaryKv, type UnaryLease, unaryLease } from './unary-kv.ts';

/** One endpoint and the connections to it, made when first used and again when lost. */
export interface EtcdEndpoint {
  readonly origin: string;
  readonly unary: UnaryConnection;
  readonly kv: UnaryKv;
  readonly lease: UnaryLease;
  /** For streams. The same connection as `unary` unless the client has `openUnary`. */
  readonly connection: Http2Connection;
}

export interface EndpointOptions extends UnaryOptions {
  readonly openUnary: OpenUnary | undefined;
}

/** Returns the endpoint with that origin, which connects on first use. */
export function openEndpoint(origin: string, { tls, connectMs, openUnary }: EndpointOptions): EtcdEndpoint {
  const connection = new Http2Connection(origin, { tls, connectMs });
  const unary = openUnary?.(origin, { tls, connectMs }) ?? unaryOver(connection);
  return { origin, connection, unary, kv: unaryKv(unary), lease: unaryLease(unary) };
}

/** Returns the connection that requests of that method use. */
export function connectionFor(
  method: string,
  { unary, connection }: EtcdEndpoint,
): Pick<UnaryConnection, 'connect' | 'suspect'> {
  return method === 'Watch' || method === 'LeaseKeepAlive' ? connection : unary;
}

export function closeEndpoint({ unary, connection }: EtcdEndpoint): void {
  unary.close();
  connection.close();
}
