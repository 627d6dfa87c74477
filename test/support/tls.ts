import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeAtEnd } from './janitor.ts';

export interface KeyPair {
  readonly keyFile: string;
  readonly certFile: string;
}

/** A certificate authority of its own, made with openssl. */
export interface Authority {
  readonly certFile: string;
  /** A certificate for servers and clients alike; `names` are IP addresses and DNS names it is good for. */
  issue(commonName: string, names?: readonly string[], validity?: 'valid' | 'expired'): KeyPair;
}

/** A folder for keys and certificates; disposing removes it. */
export interface TlsFolder extends Disposable {
  readonly dir: string;
  authority(name: string): Authority;
  /** One file with all the certificates, as `kv_ca_cert_file` may hold. */
  bundle(name: string, authorities: readonly Authority[]): string;
  write(name: string, text: string): string;
}

/** Makes a folder for certificates that are valid for so many days. */
export function makeTlsFolder(validDays = 2): TlsFolder {
  const dir = mkdtempSync(join(tmpdir(), 'netplug-tls-'));
  removeAtEnd('folder', dir);
  const write = (name: string, text: string): string => {
    const path = join(dir, name);
    writeFileSync(path, text);
    return path;
  };
  return {
    dir,
    authority: (name) => makeAuthority(dir, name, String(validDays)),
    bundle: (name, authorities) =>
      write(name, authorities.map(({ certFile }) => readFileSync(certFile, 'utf8')).join('')),
    write,
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  };
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

function makeAuthority(dir: string, name: string, validDays: string): Authority {
  const keyFile = join(dir, `${name}.key`);
  const certFile = join(dir, `${name}.crt`);
  openssl('req', '-x509', ...NEW_KEY, '-days', validDays, '-subj', `/CN=${name}`, '-keyout', keyFile, '-out', certFile);
  let serial = 0;
  return {
    certFile,
    issue: (commonName, names = [], validity = 'valid') => {
      serial += 1;
      const base = join(dir, `${name}-${String(serial)}`);
      const made = { keyFile: `${base}.key`, certFile: `${base}.crt` };
      openssl('req', '-new', ...NEW_KEY, '-subj', `/CN=${commonName}`, '-keyout', made.keyFile, '-out', `${base}.csr`);
      const alternatives = names.map((text) => (/^[\d.]+$|:/.test(text) ? `IP:${text}` : `DNS:${text}`));
      writeFileSync(
        `${base}.ext`,
        [
          'extendedKeyUsage=serverAuth,clientAuth',
          ...(alternatives.length === 0 ? [] : [`subjectAltName=${alternatives.join(',')}`]),
        ].join('\n'),
      );
      const days = validity === 'expired' ? '-1' : validDays;
      const signing = ['-CA', certFile, '-CAkey', keyFile, '-CAcreateserial', '-days', days];
      openssl('x509', '-req', '-in', `${base}.csr`, ...signing, '-extfile', `${base}.ext`, '-out', made.certFile);
      return made;
    },
  };
}

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
