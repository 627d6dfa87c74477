// What the agent writes for the plugin on a real API server: conflist, kubeconfig and a token that it renews.
import { createPrivateKey, sign } from 'node:crypto';
import { copyFile, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Agent, startAgent } from '../support/agent.ts';
import { poolOf } from '../support/fixtures.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { type Json, startNode, type TestNode, until } from '../support/node.ts';
import { makeTlsFolder } from '../support/tls.ts';

const NODE = 'node-a';
const AGENT = 'system:serviceaccount:netplug-system:netplug-agent';
const TOKEN = '/var/lib/netplug/cni-token';
/** The shortest limit that an API server takes. */
const LONGEST_S = 3600;

const scope = new AsyncDisposableStack();
let node: TestNode;
let server: ApiServer;
let agent: Agent;
let access: string;
/** The signing key of the API server, which the test replaces. */
let key: { readonly certFile: string; readonly keyFile: string };
let nextKey: typeof key;

const confDir = (): string => join(node.dir, 'conf');
const source = (): string => join(node.dir, 'config/conflist');
const token = async (): Promise<string> => (await node.run(['cat', TOKEN])).stdout.trim();

beforeAll(async () => {
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  const tls = scope.use(makeTlsFolder(1));
  const [first, second] = ['first', 'second'].map((name) => tls.authority(name).issue(name));
  nextKey = second!;
  key = { certFile: join(tls.dir, 'accounts.crt'), keyFile: join(tls.dir, 'accounts.key') };
  await useKey(first!);
  const at = { place: node, etcdUrl: 'http://127.0.0.1:2379', address: '127.0.0.1', port: 6443 };
  const flags = {
    'service-account-key-file': key.certFile,
    'service-account-signing-key-file': key.keyFile,
    'service-account-max-token-expiration': `${String(LONGEST_S)}s`,
  };
  // A user with a token of its own, so that a rotated signing key concerns the plugin alone.
  server = scope.use(await startApiServer({ at, flags, users: [{ name: AGENT, groups: ['system:authenticated'] }] }));
  for (const file of ['crds.yaml', 'rbac.yaml'])
    await server.apply(await readFile(join(import.meta.dirname, '../../manifests', file), 'utf8'));
  await server.kubectl('wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all');
  const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: NODE } };
  await server.apply([poolOf('pods', '10.66.0.0/24'), object]);
  access = await server.kubeconfigFor(server.userToken(AGENT));
  await mkdir(join(node.dir, 'config'));
  await provide('pods');
  agent = await start();
});
afterAll(async () => {
  await agent?.stop();
  await scope.disposeAsync();
});

async function useKey({ certFile, keyFile }: typeof key): Promise<void> {
  await copyFile(certFile, key.certFile);
  await copyFile(keyFile, key.keyFile);
}

async function start(): Promise<Agent> {
  const env = {
    DATASTORE_TYPE: 'orch',
    NETPLUG_ORCHCONFIG: access,
    NETPLUG_CNI_ACCOUNT: 'netplug-cni',
    NETPLUG_CNI_CONF_DIR: confDir(),
    NETPLUG_CONFLIST_FILE: source(),
  };
  return startAgent(node, { socket: node.socket, env });
}

/** Also as all nodes share it, with the placeholder for the name of the node. */
function conflist(name: string, nodename = NODE): string {
  const orch = { orchconfig: join(confDir(), 'netplug-kubeconfig') };
  const netplug = { type: 'netplug', datastore_type: 'orch', nodename, orch, ipam: { type: 'netplug-ipam' } };
  return JSON.stringify({ cniVersion: '1.1.0', name, plugins: [netplug] });
}

async function provide(name: string): Promise<void> {
  await writeFile(`${source()}.next`, conflist(name, '__KUBERNETES_NODE_NAME__'));
  await rename(`${source()}.next`, source());
}

const installed = async (): Promise<string> =>
  readFile(join(confDir(), '10-netplug.conflist'), 'utf8').catch(() => 'nothing');

/** Asks the plugin, by the installed conflist, whether it can serve: it reads the datastore for that. Returns its error. */
async function ask(): Promise<string> {
  const { name, cniVersion, plugins } = JSON.parse(await installed());
  const { status, stdout } = await node.cni('STATUS', { conf: { ...plugins[0], name, cniVersion } });
  return status === 0 ? '' : stdout;
}

function claimsOf(jwt: string): Json {
  return JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
}

/** Returns the token with another lifetime, signed with the key of the API server. */
async function withLifetime(jwt: string, lifetime: { readonly iat: number; readonly exp: number }): Promise<string> {
  const [header = ''] = jwt.split('.');
  const body = Buffer.from(JSON.stringify({ ...claimsOf(jwt), ...lifetime, nbf: lifetime.iat })).toString('base64url');
  const privateKey = createPrivateKey(await readFile(key.keyFile));
  const signature = sign('sha256', Buffer.from(`${header}.${body}`), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  return `${header}.${body}.${signature.toString('base64url')}`;
}

describe('the files that the agent writes for the plugin', () => {
  it('let the plugin serve, with a token that lasts as long as the API server grants', async () => {
    await until(async () => (await installed()) === conflist('pods'), 'the conflist is installed');
    const claims = claimsOf(await token());
    expect(claims['exp'] - claims['iat']).toBe(LONGEST_S);
    expect(claims['kubernetes.io']).toMatchObject({ serviceaccount: { name: 'netplug-cni' }, node: { name: NODE } });
    expect(await node.exec('stat', '-c', '%a', TOKEN, join(confDir(), 'netplug-kubeconfig'))).toBe('600\n600\n');
    const { body } = await agent.ask('/metrics');
    const [, seconds] = /^netplug_cni_token_expiry_seconds ([\d.]+)$/m.exec(body) ?? [];
    expect(Number(seconds)).toBeGreaterThan(LONGEST_S - 300);
    expect(Number(seconds)).toBeLessThanOrEqual(LONGEST_S);
    expect(await ask()).toEqual('');
  });

  it('follow the source, and keep a working conflist when the source becomes invalid', async () => {
    await provide('renamed');
    await until(async () => (await installed()) === conflist('renamed'), 'the conflist follows');
    await writeFile(source(), conflist('broken').replace('datastore_type', 'datastore_tpye'));
    const refused = async (): Promise<boolean> => {
      const { status, body } = await agent.ask('/readyz');
      return status === 503 && body.includes('datastore_tpye');
    };
    await until(refused, '/readyz says why');
    expect(await installed()).toBe(conflist('renamed'));
    await provide('pods');
    await agent.ready();
  });

  it('come back when they are removed', async () => {
    await node.exec('rm', TOKEN, join(confDir(), 'netplug-kubeconfig'), join(confDir(), '10-netplug.conflist'));
    const files = [TOKEN, join(confDir(), 'netplug-kubeconfig'), join(confDir(), '10-netplug.conflist')];
    await until(async () => (await node.run(['ls', ...files])).status === 0, 'the files are back');
    expect(await ask()).toEqual('');
  });

  it('keep what another program adds to the conflist, and what netplug has there is repaired', async () => {
    const mesh = { type: 'mesh-cni', kubernetes: {} };
    const path = join(confDir(), '10-netplug.conflist');
    const list = async (): Promise<Json> => JSON.parse(await installed());
    const types = async (): Promise<string> => (await list()).plugins.map(({ type }: Json) => type).join();
    const write = async (plugins: readonly Json[]): Promise<void> =>
      writeFile(path, JSON.stringify({ ...(await list()), plugins }, undefined, 4));
    await write([...(await list()).plugins, mesh]);
    const isNamed = async (): Promise<boolean> => {
      const { status, body } = await agent.ask('/readyz');
      return status === 200 && body.includes('warning: other programs have added "mesh-cni"');
    };
    await until(isNamed, '/readyz names the plugin');
    await provide('renamed');
    await until(async () => (await list()).name === 'renamed', 'the conflist follows its source');
    expect(await types()).toBe('netplug,mesh-cni');
    await write([mesh, { ...(await list()).plugins[0], nodename: 'other' }]);
    await until(async () => (await installed()).includes(`"nodename": "${NODE}"`), 'the entry of netplug is repaired');
    expect(await types()).toBe('netplug,mesh-cni');
    expect(await ask()).toEqual('');
    expect((await node.exec('stat', '-c', '%a', path)).trim()).toBe('600');
    await provide('pods');
    await until(async () => (await list()).name === 'pods', 'the conflist follows its source');
    await write((await list()).plugins.slice(0, 1));
    await until(async () => !(await isNamed()), '/readyz names nothing');
    // The next test compares the text.
    await node.exec('rm', path);
    await until(async () => (await installed()) === conflist('pods'), 'the conflist is back');
  });

  it('keep the disableGC of an administrator, which the plugin obeys with and without the agent', async () => {
    const list = async (): Promise<Json> => JSON.parse(await installed());
    const collect = async (env = {}): Promise<string> => {
      const { name, cniVersion, plugins } = await list();
      const conf = { ...plugins[0], name, cniVersion, 'cni.dev/valid-attachments': [] };
      return (await node.cni('GC', { conf, env })).stderr;
    };
    const path = join(confDir(), '10-netplug.conflist');
    await writeFile(path, JSON.stringify({ ...(await list()), disableGC: true }));
    await provide('renamed');
    await until(async () => (await list()).name === 'renamed', 'the conflist follows its source');
    expect((await list()).disableGC).toBe(true);
    for (const env of [{}, { NETPLUG_SOCKET: '/dev/null' }])
      expect(await collect(env)).toContain('its configuration sets disableGC');
    // The next test compares the text.
    await provide('pods');
    await node.exec('rm', path);
    await until(async () => (await installed()) === conflist('pods'), 'the conflist is back');
  });

  it('get a new token after the signing key of the API server was replaced', async () => {
    const before = await token();
    await server.stop();
    await useKey(nextKey);
    await server.start();
    await until(async () => (await token()) !== before, 'the token is renewed', 100_000);
    await agent.ready();
    await agent.stop();
    expect(await ask()).toEqual('');
    expect(await installed()).toBe(conflist('pods'));
  }, 180_000);

  it('name the time and the agent when the token has expired while no agent runs', async () => {
    const nowS = Math.floor(Date.now() / 1000);
    const expired = await withLifetime(await token(), { iat: nowS - 7200, exp: nowS - 3600 });
    const fresh = await withLifetime(await token(), { iat: nowS, exp: nowS + 600 });
    await writeFile(join(node.dir, 'token'), fresh);
    await node.exec('cp', join(node.dir, 'token'), TOKEN);
    // The signature of the test is good: only the time makes the difference.
    expect(await ask()).toEqual('');
    await writeFile(join(node.dir, 'token'), expired);
    await node.exec('cp', join(node.dir, 'token'), TOKEN);
    const { msg, details } = JSON.parse(await ask());
    const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
    expect(`${String(msg)} ${String(details)}`).toContain(`expired ${at(nowS - 3600)}`);
    expect(String(details)).toContain(
      `netplug-agent on this node, which renews the token and has not done so since ${at(nowS - 7200)}`,
    );
    agent = await start();
    await until(async () => (await token()) !== expired, 'the next agent renews it at once');
  });
});
