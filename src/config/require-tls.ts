import type { KvConnection } from './connection.ts';

/** The paths of the TLS files of a connection. */
export type TlsFiles = Pick<KvConnection, 'keyFile' | 'certFile' | 'caCertFile'>;

/** Returns the TLS options that are set. With any of them, netplug talks to encrypted endpoints only. */
export function tlsOptionsOf({ keyFile, certFile, caCertFile }: TlsFiles): readonly string[] {
  const options = { kv_key_file: keyFile, kv_cert_file: certFile, kv_ca_cert_file: caCertFile };
  return Object.entries(options).flatMap(([option, path]) => (path === undefined ? [] : [option]));
}

/** Reports whether requests to the URL travel unencrypted. */
export function isUnencrypted(url: string): boolean {
  return /^http:/i.test(url);
}

/** Returns the URL with the scheme `https`. */
export function encrypted(url: string): string {
  return url.replace(/^http:/i, 'https:');
}
