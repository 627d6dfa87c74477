import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Follower } from './suites/datastore/follower.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { program } from '../support/components.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { nodeName } from '../support/fixtures.ts';
import { type Authority, type KeyPair, makeTlsFolder, type TlsFolder } from '../support/tls.ts';

const never = new AbortController().signal;

interface Files {
  readonly keyFile?: string;
  readonly certFile?: string;
  readonly caCertFile?: string;
}

describe('a kv datastore behind TLS', () => {
  let folder: TlsFolder;
  let ours: Authority;
  let foreign: Authority;
  let server: KeyPair;
  let client: KeyPair;
  /** Asks every client for a certificate. */
  let strict: Etcd;
  /** Asks none. */
  let open: Etcd;

  beforeAll(async () => {
    folder = makeTlsFolder();
    ours = folder.authority('ours');
    foreign = folder.authority('foreign');
    server = ours.issue('etcd', ['127.0.0.1', 'localhost']);
    client = ours.issue('netplug');
    strict = await startEtcd({ tls: { ...server, clientCaFile: ours.certFile } });
    open = await startEtcd({ tls: foreign.issue('etcd', ['127.0.0.1']) });
  });
  afterAll(async () => {
    await strict[Symbol.asyncDispose]();
    await open[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  const store = (urls: readonly string[], files: Files): Store =>
    openKvStore({
      endpoints: { from: 'list', urls },
      keyFile: files.keyFile,
      certFile: files.certFile,
      caCertFile: files.caCertFile,
    });
  const failure = async (urls: readonly string[], files: Files): Promise<{ code?: string; message?: string }> => {
    await using opened = store(urls, files);
    return await opened.ping(never).then(
      () => ({}),
      (error: { code?: string; message?: string }) => error,
    );
  };

  it('accepts the plugin by its key and certificate, at an IP address or a name [kv-mtls]', async () => {
    for (const url of [strict.url, strict.url.replace('127.0.0.1', 'localhost')]) {
      await using opened = store([url], { ...client, caCertFile: ours.certFile });
      await expect(opened.ping(never)).resolves.toBeUndefined();
    }
  });

  it('trusts every root of one CA file [kv-ca]', async () => {
    const caCertFile = folder.bundle('both.pem', [foreign, ours]);
    for (const { url } of [strict, open]) {
      await using opened = store([url], { ...client, caCertFile });
      await expect(opened.ping(never)).resolves.toBeUndefined();
    }
  });

  it('refuses a plugin without a certificate, and the plugin says so', async () => {
    expect(await failure([strict.url], { caCertFile: ours.certFile })).toMatchObject({ code: 'store/refused' });
  });

  it('refuses a certificate of a foreign authority every time, and the plugin says so', async () => {
    const files = { ...foreign.issue('netplug'), caCertFile: ours.certFile };
    for (let round = 0; round < 20; round += 1) {
      expect(await failure([strict.url], files)).toMatchObject({ code: 'store/refused' });
    }
  });

  it('is reached again by the same program once its files are put right', async () => {
    const caCertFile = folder.bundle('rotated.pem', [foreign]);
    await using opened = store([strict.url], { ...client, caCertFile });
    await expect(opened.ping(never)).rejects.toMatchObject({ code: 'store/refused' });
    folder.bundle('rotated.pem', [ours]);
    await expect(opened.ping(never)).resolves.toBeUndefined();
  });

  it('is refused when its own certificate is of another authority, or for another host', async () => {
    expect(await failure([open.url], { caCertFile: ours.certFile })).toMatchObject({
      code: 'store/refused',
      message: expect.stringContaining('certificate') as string,
    });
    await using named = await startEtcd({ tls: ours.issue('etcd', ['elsewhere.test']) });
    expect(await failure([named.url], { caCertFile: ours.certFile })).toMatchObject({ code: 'store/refused' });
  });

  it('is used over a trusted endpoint even when another one is not', async () => {
    await using opened = store([open.url, strict.url], { ...client, caCertFile: ours.certFile });
    await expect(opened.ping(never)).resolves.toBeUndefined();
  });

  it('is store/unavailable when the endpoint speaks no TLS, or nothing but TLS', async () => {
    await using plain = await startEtcd();
    expect((await failure([plain.url.replace('http:', 'https:')], {})).code).toBe('store/unavailable');
    expect((await failure([strict.url.replace('https:', 'http:')], {})).code).toBe('store/unavailable');
  });

  it('identifies the plugin by the name in its certificate when authentication is on', async () => {
    await using guarded = await startEtcd({ tls: { ...server, clientCaFile: ours.certFile } });
    const root = ours.issue('root');
    const etcdctl = (...args: string[]): void => {
      const login = [`--cert=${root.certFile}`, `--key=${root.keyFile}`, `--cacert=${ours.certFile}`];
      const env = { ...process.env, ETCDCTL_API: '3' };
      execFileSync(program('etcdctl'), [`--endpoints=${guarded.url}`, ...login, ...args], { env, stdio: 'ignore' });
    };
    for (const user of ['root', 'netplug', 'nobody']) etcdctl('user', 'add', '--no-password', user);
    etcdctl('user', 'grant-role', 'root', 'root');
    etcdctl('role', 'add', 'netplug');
    etcdctl('role', 'grant-permission', 'netplug', '--prefix=true', 'readwrite', '/netplug/v3/');
    etcdctl('user', 'grant-role', 'netplug', 'netplug');
    etcdctl('auth', 'enable');
    const caCertFile = ours.certFile;
    await using opened = store([guarded.url], { ...client, caCertFile });
    await expect(opened.ping(never)).resolves.toBeUndefined();
    await expect(opened.listBlocks(never)).resolves.toEqual({ blocks: [], problems: [] });
    for (const name of ['nobody', 'unknown']) {
      expect(await failure([guarded.url], { ...ours.issue(name), caCertFile })).toMatchObject({
        code: 'store/refused',
      });
    }
    // While nothing changes, the watch of a user with just these rights stays.
    const limits = { connectMs: 5000, firstTryMs: 5000, answerMs: 10_000, silenceMs: 3000 };
    const endpoints = { from: 'list', urls: [guarded.url] } as const;
    await using quiet = openKvStore({ endpoints, ...client, caCertFile }, { limits });
    const follower = new Follower(quiet, nodeName('n1'));
    await follower.started();
    await expect(Promise.race([follower.ended, sleep(3 * limits.silenceMs, 'still there')])).resolves.toBe(
      'still there',
    );
    // Without them it ends, at the latest with the next probe.
    etcdctl('user', 'revoke-role', 'netplug', 'netplug');
    await expect(follower.ended).rejects.toMatchObject({ code: 'store/refused' });

    await using nameless = await startEtcd({ tls: server });
    expect(await failure([nameless.url], { caCertFile })).toEqual({});
  });

  it('is not talked to unencrypted where a TLS file is set', async () => {
    await using plain = await startEtcd();
    const mixed = [strict.url, plain.url];
    for (const [urls, files] of [
      [[plain.url], { ...client, caCertFile: ours.certFile }],
      [[plain.url], client],
      [[plain.url], { caCertFile: ours.certFile }],
      [mixed, { ...client, caCertFile: ours.certFile }],
    ] as const) {
      expect(await failure(urls, files)).toMatchObject({
        code: 'store/config-invalid',
        message: expect.stringMatching(/"http:.*" is not encrypted, while kv_.* ask for TLS/) as string,
        hint: expect.stringContaining('https:') as string,
      });
    }
    expect(await failure([plain.url], {})).toEqual({});
  });

  it('refuses a certificate that has expired, and the plugin says so', async () => {
    const files = { ...ours.issue('netplug', [], 'expired'), caCertFile: ours.certFile };
    expect(await failure([strict.url], files)).toMatchObject({ code: 'store/refused' });
    await using expired = await startEtcd({ tls: ours.issue('etcd', ['127.0.0.1'], 'expired') });
    expect(await failure([expired.url], { caCertFile: ours.certFile })).toMatchObject({
      code: 'store/refused',
      message: expect.stringContaining('expired') as string,
    });
  });

  it('is not even asked with an unusable file, and the message names option, path and reason', async () => {
    const garbage = folder.write('garbage.pem', 'not a certificate');
    const broken = folder.write('broken.pem', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
    const cases: [Files, string][] = [
      [{ ...client, keyFile: '/nowhere/key.pem' }, 'kv_key_file "/nowhere/key.pem" is unusable (ENOENT'],
      [{ ...client, keyFile: garbage }, `kv_key_file "${garbage}"`],
      [{ ...client, certFile: garbage }, `kv_cert_file "${garbage}"`],
      [{ ...client, certFile: folder.dir }, `kv_cert_file "${folder.dir}" is unusable (EISDIR`],
      [{ caCertFile: broken }, `kv_ca_cert_file "${broken}"`],
      [{ caCertFile: garbage }, 'it holds no certificate'],
      [{ ...client, keyFile: server.keyFile }, 'do not work together'],
      [{ certFile: client.certFile }, 'only together'],
    ];
    for (const [files, part] of cases) {
      expect(await failure([strict.url], files)).toMatchObject({
        code: 'store/config-invalid',
        message: expect.stringContaining(part) as string,
      });
    }
  });
});
