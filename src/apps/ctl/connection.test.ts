import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inspectNetconf } from '../../config/decode.ts';
import { readConnection, readOwnConnection } from './connection.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const NO_FLAGS = { file: undefined, context: undefined };
const around = (): Pick<Parameters<typeof readConnection>[0], 'ports' | 'kubeconfig' | 'config'> => ({
  config: undefined,
  kubeconfig: NO_FLAGS,
  ports: { machine: { serviceAccountDir: join(folder, 'account') }, plugin: { confDir: join(folder, 'net.d') } },
});
const fromEnv = async (env: Record<string, string>): ReturnType<typeof readConnection> =>
  readConnection({ ...around(), env });

describe('a connection from the environment', () => {
  it('follows the rules of the network configuration, in capitals [ctl-env]', async () => {
    const options = { KV_DISCOVERY_SRV: 'example.org', KV_KEY_FILE: '/k', KV_CERT_FILE: '/c', KV_SCHEME: 'https' };
    const lower = Object.fromEntries(Object.entries(options).map(([key, value]) => [key.toLowerCase(), value]));
    const { netconf, warnings } = inspectNetconf(
      { name: 'n', type: 'netplug', ipam: { type: 'netplug-ipam' }, ...lower },
      'network',
    );
    const origin = {
      from: 'KV_DISCOVERY_SRV, KV_KEY_FILE, KV_CERT_FILE, KV_SCHEME',
      why: 'set in the environment',
      ifRefused: undefined,
    };
    expect(await fromEnv(options)).toEqual({
      datastore: { ...netconf?.datastore, origin },
      warnings: warnings.map(({ message }) => message),
      origin,
    });
  });

  it('names the file that gives access to the API, or its URL [ctl-env]', async () => {
    const { datastore } = await fromEnv({
      DATASTORE_TYPE: 'orch',
      ORCHCONFIG: '/etc/kube',
      ORCH_API_ROOT: 'http://a:1',
    });
    expect(datastore).toMatchObject({
      type: 'orch',
      orch: { orchconfig: '/etc/kube', apiRoot: 'http://a:1', nodeName: undefined },
    });
    await expect(fromEnv({ DATASTORE_TYPE: 'orch', ORCHCONFIG: 'kube' })).rejects.toMatchObject({
      code: 'netconf/invalid',
    });
  });

  it('treats an empty variable as absent [ctl-env]', async () => {
    await expect(fromEnv({ DATASTORE_TYPE: '', KV_ENDPOINTS: '' })).rejects.toMatchObject({
      code: 'store/config-invalid',
      message: expect.stringContaining('no variable of netplugctl names a datastore'),
    });
  });

  it.each<[Record<string, string>, string]>([
    [{ DATASTORE_TYPE: 'etcd' }, 'DATASTORE_TYPE: '],
    [{ KV_ENDPOINTS: 'a:1' }, 'KV_ENDPOINTS: '],
    [{ KV_ENDPOINTS: 'http://a:1', KV_DISCOVERY_SRV: 'b' }, 'KV_DISCOVERY_SRV: excludes'],
    [{ KV_KEY_FILE: '/k' }, 'KV_CERT_FILE: missing'],
  ])('refuses %o', async (env, said) => {
    await expect(fromEnv(env)).rejects.toMatchObject({
      code: 'netconf/invalid',
      message: expect.stringContaining(said),
    });
  });
});

describe('the facts of a connection', () => {
  const fromOf = async (env: Record<string, string>): Promise<string> =>
    (await readConnection({ ...around(), env })).origin.from;
  const home = async (): Promise<string> => {
    await mkdir(join(folder, '.kube'));
    const path = join(folder, '.kube/config');
    await writeFile(path, '');
    return path;
  };
  const pod = async (): Promise<Record<string, string>> => {
    await mkdir(join(folder, 'account'));
    await writeFile(join(folder, 'account/token'), 'secret');
    return { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
  };
  const conflist = async (name: string, text: string): Promise<string> => {
    await mkdir(join(folder, 'net.d'), { recursive: true });
    await writeFile(join(folder, 'net.d', name), text);
    return join(folder, 'net.d', name);
  };
  const netplug = JSON.stringify({
    cniVersion: '1.0.0',
    name: 'n',
    plugins: [{ type: 'netplug', kv_endpoints: 'http://node:1', ipam: { type: 'netplug-ipam' } }],
  });

  it('include ~/.kube/config, also an empty one [ctl-env]', async () => {
    const path = await home();
    expect(await fromOf({ HOME: folder })).toBe(`the default kubeconfig "${path}"`);
    await expect(fromOf({})).rejects.toMatchObject({ message: expect.stringContaining('HOME is not set') });
    await expect(fromOf({ HOME: join(folder, 'none') })).rejects.toMatchObject({
      message: expect.stringContaining(`"${join(folder, 'none/.kube/config')}" does not exist`),
    });
  });

  it('include the account of a pod, unless the pod has no token', async () => {
    const path = await home();
    const env = { HOME: folder, KUBERNETES_SERVICE_HOST: '10.96.0.1' };
    expect(await fromOf(env)).toBe(`the default kubeconfig "${path}"`);
    expect(await fromOf({ ...env, ...(await pod()) })).toBe('the service account of this pod');
  });

  it('include the first network configuration of netplug on this node, valid or not', async () => {
    await conflist('05-other.conflist', '{"name":"o","plugins":[{"type":"bridge"}]}');
    const path = await conflist('10-netplug.conflist', netplug);
    await home();
    expect(await fromOf({ HOME: folder })).toBe(`the network configuration of this node "${path}"`);
    expect((await readConnection({ ...around(), env: {} })).datastore).toMatchObject({
      connection: { endpoints: { urls: ['http://node:1'] } },
    });
    await conflist('10-netplug.conflist', netplug.replace('http://node:1', 'node'));
    await expect(fromOf({ HOME: folder })).rejects.toMatchObject({ code: 'netconf/invalid' });
  });

  it('name the network configurations that cannot be read', async () => {
    await mkdir(join(folder, 'net.d/10-netplug.conflist'), { recursive: true });
    await expect(fromOf({ HOME: folder })).rejects.toMatchObject({
      message: expect.stringContaining(`that this user can read (${join(folder, 'net.d/10-netplug.conflist')})`),
    });
  });

  it('name the folder of network configurations when it cannot be read, and use the next source', async () => {
    await symlink('net.d', join(folder, 'net.d'));
    await expect(fromOf({})).rejects.toMatchObject({
      message: expect.stringContaining(`that this user can read (${join(folder, 'net.d')})`),
    });
    const path = await home();
    expect(await fromOf({ HOME: folder })).toBe(`the default kubeconfig "${path}"`);
  });

  it('leave KUBECONFIG to netplugctl: the agent and install use the variables of netplug only', async () => {
    expect(await readOwnConnection({ config: undefined, env: { KUBECONFIG: '/k' } })).toMatchObject({
      datastore: { type: 'kvv3' },
    });
  });
});

describe('a connection from a file', () => {
  const read = async (text: string): ReturnType<typeof readConnection> => {
    const config = join(folder, 'ctl.yaml');
    await writeFile(config, text);
    return readConnection({ ...around(), config, env: { KV_ENDPOINTS: 'http://env:1', KUBECONFIG: '/k' } });
  };

  it.each(['kv_endpoints: http://file:1\n', 'KV_ENDPOINTS: http://file:1\n', '{"kv_endpoints": "http://file:1"}'])(
    'wins over the environment: %j',
    async (text) => {
      expect((await read(text)).datastore).toMatchObject({ connection: { endpoints: { urls: ['http://file:1'] } } });
    },
  );

  it.each([
    'kv_endpoints: http://a:1\nkv_key_file: /k\nkv_cert_file: /c\n',
    'kv_endpoints: https://a:1,http://b:1\nkv_ca_cert_file: /ca\n',
    'kv_authority: a:1\nkv_ca_cert_file: /ca\n',
  ])('refuses TLS files beside a plain endpoint: %j', async (text) => {
    await expect(read(text)).rejects.toMatchObject({
      code: 'netconf/invalid',
      message: expect.stringMatching(/is not encrypted, while .* ask for TLS/),
    });
  });

  it('suggests the right key for a typo, and for the name that other plugins use', async () => {
    await expect(read('kv_endpoint: http://a:1\n')).rejects.toMatchObject({
      message: expect.stringContaining('did you mean "kv_endpoints"?'),
    });
    await expect(read('etcd_endpoints: http://a:1\n')).rejects.toMatchObject({ code: 'netconf/invalid' });
    await expect(read('a list? no\n')).rejects.toMatchObject({ code: 'netconf/invalid' });
  });
});
