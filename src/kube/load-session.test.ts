import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeTlsFolder, type TlsFolder } from '../../test/support/tls.ts';
import type { OrchAccess } from './access.ts';
import { loadSession } from './load-session.ts';
import type { Session } from './session.ts';

let folder: TlsFolder;
let ca: ReturnType<TlsFolder['authority']>;
beforeEach(() => {
  folder = makeTlsFolder();
  ca = folder.authority('ca');
});
afterEach(() => folder[Symbol.dispose]());

const at = (path: string): string => join(folder.dir, path);
function put(path: string, content: string | object): string {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), typeof content === 'string' ? content : JSON.stringify(content));
  return at(path);
}

/** The cluster comes from one file and the user from another, each with relative paths. */
async function load(user: object, more: Partial<Extract<OrchAccess, { from: 'kubeconfig' }>> = {}): Promise<Session> {
  const cluster = { server: 'https://10.0.0.1:6443', 'certificate-authority': 'ca.crt' };
  put('clusters/ca.crt', readFileSync(ca.certFile, 'utf8'));
  const clusters = put('clusters/config', {
    clusters: [{ name: 'c', cluster }],
    contexts: [{ name: 'prod', context: { cluster: 'c', user: 'u' } }],
  });
  const users = put('users/config', { users: [{ name: 'u', user }] });
  const paths = [at('missing'), clusters, users];
  return loadSession(
    { from: 'kubeconfig', paths, namedBy: 'KUBECONFIG', ifMissing: 'skip', context: 'prod', ...more },
    { env: process.env, now: () => 0 },
    new AbortController().signal,
  );
}

describe('a session from merged kubeconfig files', () => {
  it('resolves the paths of cluster and user against the folder of the file each comes from', async () => {
    put('users/token', 'secret\n');
    const session = await load({ tokenFile: 'token' });
    expect(session).toMatchObject({
      server: new URL('https://10.0.0.1:6443'),
      tls: { ca: readFileSync(ca.certFile, 'utf8') },
      credential: { kind: 'token', token: 'secret' },
    });
    // A file that is missing now is watched too.
    expect(session.files).toEqual(
      ['missing', 'clusters/config', 'users/config', 'clusters/ca.crt', 'users/token'].map(at),
    );
  });

  it('reads client certificate and key beside the file of the user', async () => {
    const own = ca.issue('admin');
    put('users/pki/own.crt', readFileSync(own.certFile, 'utf8'));
    put('users/pki/own.key', readFileSync(own.keyFile, 'utf8'));
    const session = await load({ 'client-certificate': 'pki/own.crt', 'client-key': 'pki/own.key' });
    expect(session.tls.key).toBe(readFileSync(own.keyFile, 'utf8'));
    expect(session.credential).toMatchObject({ kind: 'certificate' });
  });

  it('runs a credential plugin named by a relative path from the folder of the file of the user', async () => {
    const apiVersion = 'client.authentication.k8s.io/v1';
    const answer = JSON.stringify({ apiVersion, kind: 'ExecCredential', status: { token: 'of plugin' } });
    chmodSync(put('users/bin/plugin', `#!/bin/sh\necho '${answer}'\n`), 0o755);
    const session = await load({ exec: { apiVersion, command: './bin/plugin' } });
    expect(session.credential).toMatchObject({ kind: 'token', token: 'of plugin' });
  });

  it.each([{ as: 'viewer' }, { 'as-groups': ['team'] }, { 'as-uid': '7' }])(
    'is refused when its user acts as another one (%j), rather than used with more rights',
    async (impersonation) => {
      await expect(load({ token: 'secret', ...impersonation })).rejects.toMatchObject({
        message: expect.stringContaining(`${Object.keys(impersonation)[0] ?? ''}: is not supported`) as string,
      });
    },
  );

  it('is refused when no file of KUBECONFIG exists', async () => {
    await expect(load({}, { paths: [at('x'), at('y')] })).rejects.toMatchObject({
      code: 'store/config-invalid',
      message: expect.stringContaining(`KUBECONFIG names no file that exists ("${at('x')}", "${at('y')}")`) as string,
    });
  });

  it('is refused when the file of --kubeconfig does not exist', async () => {
    const more = { paths: [at('x')], namedBy: '--kubeconfig', ifMissing: 'refuse' } as const;
    await expect(load({}, more)).rejects.toMatchObject({
      code: 'store/config-invalid',
      message: expect.stringContaining(`--kubeconfig "${at('x')}" cannot be read (ENOENT`) as string,
    });
  });

  it('is refused when a file of KUBECONFIG exists and cannot be read', async () => {
    await expect(load({}, { paths: [folder.dir] })).rejects.toMatchObject({
      message: expect.stringContaining(`KUBECONFIG "${folder.dir}" cannot be read (EISDIR`) as string,
    });
  });
});
