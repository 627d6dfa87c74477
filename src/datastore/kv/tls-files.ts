import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { NetplugError, reasonOf } from '../../base/errors.ts';
import type { KvConnection } from '../../config/connection.ts';
import { given } from '../../base/given.ts';

/** Keys and certificates that node:tls needs to identify the plugin and to trust the server. */
export interface EtcdTls {
  readonly key?: string;
  readonly cert?: string;
  readonly ca?: string[];
}

/**
 * Reads and checks the files once.
 * @throws store/config-invalid naming the option, the path and the reason
 */
export async function readTlsFiles({ keyFile, certFile, caCertFile }: KvConnection): Promise<EtcdTls> {
  const key = await readPem('kv_key_file', keyFile, (text) => [text, createPrivateKey(text)]);
  const cert = await readPem('kv_cert_file', certFile, certificatesIn);
  const ca = await readPem('kv_ca_cert_file', caCertFile, certificatesIn);
  if ((key === undefined) !== (cert === undefined)) {
    throw invalid('kv_key_file and kv_cert_file are given only together', 'Set both, or none of them');
  }
  const material = given({ key, cert, ca: ca === undefined ? undefined : certificatesIn(ca) });
  // A context without files would only read the certificates of the system.
  if (key === undefined && ca === undefined) return material;
  try {
    createSecureContext({ ...material });
  } catch (cause) {
    const pair = `kv_key_file "${keyFile ?? ''}" and kv_cert_file "${certFile ?? ''}"`;
    throw invalid(
      `${pair} do not work together (${reasonOf(cause)})`,
      'Give the key the certificate was made for',
      cause,
    );
  }
  return material;
}

async function readPem(
  option: string,
  path: string | undefined,
  parse: (text: string) => readonly unknown[],
): Promise<string | undefined> {
  if (path === undefined) return undefined;
  try {
    const text = await readFile(path, 'utf8');
    if (parse(text).length === 0) throw new Error('it holds no certificate in PEM form');
    return text;
  } catch (cause) {
    throw invalid(`${option} "${path}" is unusable (${reasonOf(cause)})`, `Correct ${option}, or the file`, cause);
  }
}

/** The certificates of a PEM file, each one parsed so that garbage is found now. */
function certificatesIn(text: string): string[] {
  return [...text.matchAll(/-----BEGIN (?:TRUSTED )?CERTIFICATE-----[^-]+-----END (?:TRUSTED )?CERTIFICATE-----/g)].map(
    ([pem]) => new X509Certificate(pem).toString(),
  );
}

function invalid(what: string, hint: string, cause?: unknown): NetplugError {
  return new NetplugError('store/config-invalid', `Cannot connect to the kv datastore: ${what}`, { hint, cause });
}
