import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NetplugError } from '../../src/base/errors.ts';
import { agentAccessIn } from '../../src/bin/agent-access.ts';
import { readSecretIn } from '../../src/bin/read-secret.ts';
import { openOrchStore, type OrchStoreOptions } from '../../src/datastore/orch/orch-store.ts';
import { PASSWORD_SECRET } from '../../src/install/cluster/rights/role-table.ts';
import type { OrchAccess } from '../../src/kube/access.ts';
import { Http2Transport } from '../../src/kube/http2-transport.ts';
import { startOrchApiServer, type OrchApiServer } from '../support/orch-datastore.ts';
import { makeTlsFolder, type TlsFolder } from '../support/tls.ts';

const never = new AbortController().signal;

describe('access to the API of the orchestrator', () => {
  let server: OrchApiServer;
  let folder: TlsFolder;

  beforeAll(async () => {
    server = await startOrchApiServer();
    folder = makeTlsFolder();
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    folder?.[Symbol.dispose]();
  });

  let files = 0;
  /** A configuration file with that user. */
  const config = (user: object, cluster: object = {}): string => {
    const text = {
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server: server.url, 'certificate-authority': server.caFile, ...cluster } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    };
    files += 1;
    return folder.write(`config-${String(files)}`, JSON.stringify(text));
  };
  const expectAnswer = async (access: OrchAccess, options?: OrchStoreOptions): Promise<void> => {
    await using store = openOrchStore(access, options);
    expect(await store.ping(never)).toBeUndefined();
  };
  const refusal = async (access: OrchAccess, options?: OrchStoreOptions): Promise<NetplugError> => {
    const cause: unknown = await expectAnswer(access, options).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(cause).toMatchObject({ name: 'NetplugError' });
    return cause as NetplugError;
  };
  const jwt = (claims: object): string =>
    ['{}', JSON.stringify(claims), 'x'].map((part) => Buffer.from(part).toString('base64url')).join('.');

  const settings = (path: string) => ({ orchconfig: path, apiRoot: undefined, nodeName: undefined });

  it('reads the passwords of BGP sessions as the agent, in one Secret of one namespace, and never as the plugin', async () => {
    const at = (namespace: string): string => `--namespace=${namespace}`;
    const secret = ['create', 'secret', 'generic'];
    const bgp = PASSWORD_SECRET;
    const orch = settings(config({ token: await server.callerToken('plugin') }));
    const datastore = { type: 'orch', orch } as const;
    const own = { NETPLUG_ORCHCONFIG: config({ token: await server.callerToken('agent') }) };
    using transport = new Http2Transport();
    const read = readSecretIn(own, datastore, transport);
    expect(await read(bgp, 'password', never)).toBeUndefined();
    for (const namespace of ['netplug-system', 'default']) {
      const flags = ['--from-literal=password=correct horse', '--from-literal=empty='];
      await server.kubectl(...secret, bgp, at(namespace), ...flags);
    }
    await server.kubectl(...secret, 'other', at('netplug-system'), '--from-literal=password=battery');
    expect(await read(bgp, 'password', never)).toBe('correct horse');
    expect(await read(bgp, 'empty', never)).toBe('');
    expect(await read(bgp, 'other', never)).toBeUndefined();
    const refused = { code: 'store/refused' };
    await expect(read('other', 'password', never)).rejects.toMatchObject(refused);
    const elsewhere = readSecretIn({ ...own, NETPLUG_NAMESPACE: 'default' }, datastore, transport);
    await expect(elsewhere(bgp, 'password', never)).rejects.toMatchObject(refused);
    await expect(readSecretIn({}, datastore, transport)(bgp, 'password', never)).rejects.toMatchObject(refused);
  });

  it('is that of the own account of the agent, in a file or of its pod, whatever the network configuration names', () => {
    const named = settings('/etc/cni/net.d/netplug-kubeconfig');
    const found = (env: NodeJS.ProcessEnv): OrchAccess => agentAccessIn(env)(named);
    expect(found({ NETPLUG_ORCHCONFIG: '/etc/netplug/agent' })).toEqual({ from: 'file', path: '/etc/netplug/agent' });
    expect(found({ NETPLUG_ORCHCONFIG: 'in-cluster' })).toEqual({ from: 'in-cluster' });
    for (const env of [{}, { NETPLUG_ORCHCONFIG: '' }])
      expect(found(env)).toMatchObject({ from: 'file', path: named.orchconfig });
  });

  describe('by a configuration file', () => {
    it('takes a token and a certificate authority inside it [orch-access]', async () => {
      await expectAnswer({ from: 'file', path: server.kubeconfig });
    });

    it('takes files beside it', async () => {
      folder.write('token', `${server.adminToken}\n`);
      folder.write('ca.pem', readFileSync(server.caFile, 'utf8'));
      await expectAnswer({ from: 'file', path: config({ tokenFile: 'token' }, { 'certificate-authority': 'ca.pem' }) });
    });

    it('reads a token file again when it changes, and at the latest when the API refuses the token', async () => {
      const tokenFile = folder.write('rotated', 'stale');
      const path = config({ tokenFile });
      let now = 0;
      const clock = { now: () => now, monotonic: () => now, sleep: async () => Promise.resolve() };
      const requests: string[] = [];
      await using store = openOrchStore({ from: 'file', path }, { clock, onRequest: (what) => requests.push(what) });
      await expect(store.ping(never)).rejects.toMatchObject({ code: 'store/refused' });
      expect(requests).toHaveLength(2);
      writeFileSync(tokenFile, server.adminToken);
      // The clock stands still, so no period has passed: the refusal makes the program read the file.
      await store.ping(never);
      expect(requests).toHaveLength(4);
      now += 5000;
      writeFileSync(tokenFile, 'stale-again');
      await expect(store.ping(never)).rejects.toMatchObject({ code: 'store/refused' });
      now += 5000;
      writeFileSync(tokenFile, server.adminToken);
      await store.ping(never);
      expect(requests).toHaveLength(7);
    });

    it('says which credential was refused, from which file, and until when it was good', async () => {
      const tokenFile = folder.write('expired', jwt({ exp: 1_600_000_000 }));
      const { code, message, hint } = await refusal({ from: 'file', path: config({ tokenFile }) });
      expect(code).toBe('store/refused');
      expect(message).toContain(`the token from file "${tokenFile}" (expired 2020-09-13T12:26:40.000Z)`);
      expect(hint).toContain('rbac.yaml');
      expect(`${message}${hint ?? ''}`).not.toContain(jwt({ exp: 1_600_000_000 }));
      const path = config({ token: jwt({ exp: 4_000_000_000 }) });
      expect((await refusal({ from: 'file', path })).message).toContain(
        `the token from file "${path}" (valid until 2096-10-02T07:06:40.000Z)`,
      );
    });

    it('says which right a caller lacks', async () => {
      const token = await server.tokenFor('default/nobody');
      const { code, message, hint } = await refusal({ from: 'file', path: config({ token }) });
      expect(code).toBe('store/refused');
      expect(message).toMatch(
        /ipamconfigurations.* is forbidden: User "system:serviceaccount:default:nobody" cannot get/,
      );
      expect(hint).toContain('the token from file');
    });

    it('shows a client certificate, from files or inside', async () => {
      const authority = { key: join(server.dir, 'kube-ca.key'), cert: server.caFile };
      const made = issue(folder, authority, '/O=system:masters/CN=somebody');
      await expectAnswer({ from: 'file', path: config({ 'client-certificate': made.cert, 'client-key': made.key }) });
      const base64 = (file: string): string => readFileSync(file).toString('base64');
      const inside = { 'client-certificate-data': base64(made.cert), 'client-key-data': base64(made.key) };
      await expectAnswer({ from: 'file', path: config(inside) });
      const weak = issue(folder, authority, '/CN=weak');
      const user = { 'client-certificate': weak.cert, 'client-key': weak.key };
      const { message, hint } = await refusal({ from: 'file', path: config(user) });
      expect(message).toContain('User "weak" cannot get');
      expect(hint).toMatch(/the client certificate of "CN=weak" from file ".*" \(valid until \d{4}-.*Z\)/);
    });

    it('runs a credential plugin, and again only when what it gave ends or is refused', async () => {
      const plugin = join(folder.dir, 'plugin');
      const calls = join(folder.dir, 'calls');
      const answer = (status: object): void =>
        writeFileSync(
          join(folder.dir, 'answer'),
          JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1beta1', kind: 'ExecCredential', status }),
        );
      writeFileSync(plugin, `#!/bin/sh\necho "$1 $WHO $KUBERNETES_EXEC_INFO" >> ${calls}\ncat ${folder.dir}/answer\n`);
      chmodSync(plugin, 0o755);
      const exec = {
        apiVersion: 'client.authentication.k8s.io/v1beta1',
        command: './plugin',
        args: ['give'],
        env: [{ name: 'WHO', value: 'me' }],
      };
      const path = config({ exec });
      let now = Date.parse('2026-01-01T00:00:00Z');
      const clock = { now: () => now, monotonic: () => now, sleep: async () => Promise.resolve() };
      await using store = openOrchStore({ from: 'file', path }, { clock, env: process.env });
      answer({ token: server.adminToken, expirationTimestamp: '2026-01-01T01:00:00Z' });
      await store.ping(never);
      await store.ping(never);
      const count = (): number => readFileSync(calls, 'utf8').trim().split('\n').length;
      expect(count()).toBe(1);
      expect(readFileSync(calls, 'utf8')).toMatch(/^give me \{"apiVersion":"client\.authentication\.k8s\.io\/v1beta1"/);
      now += 3_600_000;
      await store.ping(never);
      expect(count()).toBe(2);
      answer({ token: 'refused' });
      const broken = await refusal({ from: 'file', path }, { env: process.env });
      expect(broken.message).toContain(`it does not accept the token from plugin "./plugin" of file "${path}"`);
      expect(count()).toBe(4);
      answer({});
      expect(await refusal({ from: 'file', path }, { env: process.env })).toMatchObject({
        code: 'store/config-invalid',
        message: expect.stringContaining('gave neither a token nor a certificate') as string,
      });
    });

    it('leaves the file behind when only the certificate of the server is wrong', async () => {
      const stranger = folder.authority('stranger');
      const path = config({ token: server.adminToken }, { 'certificate-authority': stranger.certFile });
      const { code, message } = await refusal({ from: 'file', path });
      expect([code, message]).toEqual(['store/refused', expect.stringMatching(/certificate/)]);
      const cluster = { 'certificate-authority': '', 'insecure-skip-tls-verify': true };
      await expectAnswer({ from: 'file', path: config({ token: server.adminToken }, cluster) });
      const named = { 'tls-server-name': 'kubernetes.default.svc' };
      await expectAnswer({ from: 'file', path: config({ token: server.adminToken }, named) });
      const misnamed = config({ token: server.adminToken }, { 'tls-server-name': 'elsewhere' });
      expect((await refusal({ from: 'file', path: misnamed })).code).toBe('store/refused');
    });

    it('names file, field and reason of what is wrong', async () => {
      const missing = join(folder.dir, 'missing');
      for (const [user, reason] of [
        [{ tokenFile: missing }, /users\[0\]\.user\.tokenFile ".*missing" cannot be read \(ENOENT/],
        [{ tokenFile: folder.write('empty', '\n') }, /users\[0\]\.user\.tokenFile ".*empty" holds no token/],
        [{ 'client-certificate': server.caFile }, /users\[0\]\.user: .* given only together/],
        [{ 'client-certificate-data': 'eA==' }, /users\[0\]\.user\.client-certificate-data: is not PEM/],
        [{ 'auth-provider': { name: 'old' } }, /users\[0\]\.user\.auth-provider: is not supported/],
        [
          { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: 'no-such-plugin' } },
          /"no-such-plugin" cannot be run/,
        ],
        [{ exec: { apiVersion: 'client.authentication.k8s.io/v1', command: 'false' } }, /"false" ended with status 1/],
      ] as const) {
        const { code, message } = await refusal({ from: 'file', path: config(user) }, { env: process.env });
        expect(code).toBe('store/config-invalid');
        expect(message).toMatch(reason);
      }
      expect(await refusal({ from: 'file', path: missing })).toMatchObject({
        code: 'store/config-invalid',
        message: expect.stringContaining(`orch.orchconfig "${missing}" cannot be read (ENOENT`) as string,
      });
    });
  });

  it('by a URL alone has no credential, and says so when one is needed', async () => {
    const { code, message } = await refusal({ from: 'api-root', url: server.url });
    expect([code, message]).toEqual(['store/refused', expect.stringMatching(/certificate/)]);
    const path = config({}, {});
    const anonymous = await refusal({ from: 'file', path });
    expect(anonymous.message).toContain('User "system:anonymous" cannot get');
    expect(anonymous.hint).toContain('Look at no credential');
  });

  it('by a URL beside a file goes to the URL with the credential of the file', async () => {
    const path = config({ token: server.adminToken }, { server: 'https://192.0.2.1' });
    await expectAnswer({ from: 'file', path, apiRoot: server.url });
  });

  it('from inside a pod takes the token that is there, also a newer one', async () => {
    const dir = join(folder.dir, 'pod');
    mkdirSync(dir);
    writeFileSync(join(dir, 'token'), 'old');
    writeFileSync(join(dir, 'ca.crt'), readFileSync(server.caFile));
    const { hostname, port } = new URL(server.url);
    const env = { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
    await using store = openOrchStore({ from: 'in-cluster', dir }, { env });
    await expect(store.ping(never)).rejects.toMatchObject({ code: 'store/refused' });
    writeFileSync(join(dir, 'token'), server.adminToken);
    await store.ping(never);
    expect(await refusal({ from: 'in-cluster', dir }, { env: {} })).toMatchObject({
      code: 'store/config-invalid',
      message: expect.stringContaining('KUBERNETES_SERVICE_HOST') as string,
    });
  });

  it('notices a server that is down by a ping', async () => {
    const { code, message } = await refusal({ from: 'api-root', url: 'http://127.0.0.1:9' });
    expect(code).toBe('store/unavailable');
    expect(message).toBe(
      'Cannot use the API of the orchestrator at http://127.0.0.1:9: connect ECONNREFUSED 127.0.0.1:9',
    );
  });
});

function issue(
  folder: TlsFolder,
  authority: { key: string; cert: string },
  subject: string,
): { cert: string; key: string } {
  const base = join(folder.dir, subject.replaceAll(/\W/g, '-'));
  const made = { key: `${base}.key`, cert: `${base}.crt` };
  const openssl = (...args: string[]): void => void execFileSync('openssl', args, { stdio: 'ignore' });
  openssl('req', '-new', '-newkey', 'rsa:2048', '-nodes', '-subj', subject, '-keyout', made.key, '-out', `${base}.csr`);
  writeFileSync(`${base}.ext`, 'extendedKeyUsage=clientAuth');
  const signing = ['-CA', authority.cert, '-CAkey', authority.key, '-CAcreateserial', '-days', '2'];
  openssl('x509', '-req', '-in', `${base}.csr`, ...signing, '-extfile', `${base}.ext`, '-out', made.cert);
  return made;
}
