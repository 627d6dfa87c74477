import type { EtcdTls } from './tls-files.ts';

/** One request with one message, and its response, over whatever speaks HTTP/2. */
export interface UnaryRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly signal: AbortSignal;
}

export interface UnaryResponse {
  /** With `:status`. Names are in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
  /** Empty for a response of headers only. */
  readonly trailers: ReadonlyMap<string, string>;
}

/** A connection to one endpoint, made when first used and again when lost. */
export interface UnaryConnection {
  readonly isOpen: boolean;
  /** Resolves when the server is there. Callers at the same time share one attempt. */
  connect(): Promise<unknown>;
  /** Sends a POST request. Rejects with the reason of the signal when it aborts, and cancels the request. */
  post(path: string, request: UnaryRequest): Promise<UnaryResponse>;
  /** Marks the connection as suspect, to be tested before its next use. */
  suspect(): void;
  close(): void;
}

export interface UnaryOptions {
  /** Empty for an unencrypted endpoint. */
  readonly tls: EtcdTls;
  readonly connectMs: number;
}

/** Returns a connection for requests with one message, beside that of streams. */
export type OpenUnary = (origin: string, options: UnaryOptions) => UnaryConnection;
