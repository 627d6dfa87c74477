import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inspectNetconf } from '../../config/decode.ts';
import { hasConnection, readConnection, readOwnConnection } from './connection.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const NO_FLAGS = { file: undefined, context: undefined };
const around = (): Pick<Parameters<typeof readConnection>[0], 'ports' | 'kubeconfig' | 'config'> => ({
  config: undefined,
  kubeconfig: NO_FLAGS,
  ports: { machine: { serviceAccountDir: join(folder, 'account') } },
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
    expect(await fromEnv(options)).toEqual({
      from: 'the environment',
      datastore: netconf?.datastore,
      warnings: warnings.map(({ message }) => message),
    });
  });

  it('names the file that gives access to the API, or its URL [ctl-env]', async () => {
    const { datastore } = await fromEnv({
      DATASTORE_TYPE: 'orch',
      ORCHCONFIG: '/etc/kube',
      ORCH_API_ROOT: 'http://a:1',
    });
    expect(datastore).toEqual({
      type: 'orch',
      orch: { orchconfig: '/etc/kube', apiRoot: 'http://a:1', nodeName: undefined },
    });
    await expect(fromEnv({ DATASTORE_TYPE: 'orch', ORCHCONFIG: 'kube' })).rejects.toMatchObject({
      code: 'netconf/invalid',
    });
  });

  it('treats an empty variable as absent [ctl-env]', async () => {
    const { datastore } = await fromEnv({ DATASTORE_TYPE: '', KV_ENDPOINTS: '' });
    expect(datastore).toMatchObject({ type: 'kvv3', connection: { endpoints: { urls: ['http://127.0.0.1:2379'] } } });
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

describe('a connection from a kubeconfig', () => {
  const orchOf = async (env: Record<string, string>, flags = {}): Promise<unknown> => {
    const { datastore } = await readConnection({ ...around(), kubeconfig: { ...NO_FLAGS, ...flags }, env });
    return datastore.type === 'orch' ? datastore.orch : datastore.type;
  };
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

  it('is the API datastore without variables of its own when KUBECONFIG is set [ctl-env]', async () => {
    expect(await orchOf({ KUBECONFIG: '/k' })).toEqual({
      orchconfig: undefined,
      apiRoot: undefined,
      nodeName: undefined,
      kubeconfig: { paths: ['/k'], namedBy: 'KUBECONFIG', ifMissing: 'skip', context: undefined },
    });
    expect(await orchOf({ KUBECONFIG: '/k', KV_ENDPOINTS: 'http://a:1' })).toBe('kvv3');
  });

  it('ignores malformed and contradicting variables when --kubeconfig or --context is given', async () => {
    const env = { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: 'no url', ORCHCONFIG: 'relative' };
    const kubeconfig = { paths: ['k'], context: 'prod' };
    expect(await orchOf(env, { file: 'k', context: 'prod' })).toMatchObject({ kubeconfig });
    expect(await orchOf(env, { context: 'prod' })).toMatchObject({ kubeconfig: { paths: ['relative'] } });
  });

  it('still refuses malformed variables when KUBECONFIG gives DATASTORE_TYPE=orch its access', async () => {
    await expect(orchOf({ DATASTORE_TYPE: 'orch', KV_ENDPOINTS: 'a:1', KUBECONFIG: '/k' })).rejects.toMatchObject({
      code: 'netconf/invalid',
    });
  });

  it('falls back to ~/.kube/config for DATASTORE_TYPE=orch when the file exists', async () => {
    const env = { DATASTORE_TYPE: 'orch', HOME: folder };
    expect(await orchOf(env)).toMatchObject({ kubeconfig: undefined });
    const path = await home();
    expect(await orchOf(env)).toMatchObject({ kubeconfig: { paths: [path] } });
    expect(await orchOf({ HOME: folder })).toBe('kvv3');
  });

  it('leaves access to the account of the pod unless the pod has no token', async () => {
    const path = await home();
    const env = { DATASTORE_TYPE: 'orch', HOME: folder, KUBERNETES_SERVICE_HOST: '10.96.0.1' };
    expect(await orchOf(env)).toMatchObject({ kubeconfig: { paths: [path] } });
    expect(await orchOf({ ...env, ...(await pod()) })).toMatchObject({ kubeconfig: undefined });
  });

  it('does not count KUBECONFIG as a connection where a node has its network configuration', () => {
    const context = { config: undefined, kubeconfig: NO_FLAGS };
    expect(hasConnection({ ...context, env: { KUBECONFIG: '/k' } })).toBe(false);
    expect(hasConnection({ ...context, env: { KV_ENDPOINTS: 'http://a:1' } })).toBe(true);
    expect(hasConnection({ ...context, env: {}, kubeconfig: { ...NO_FLAGS, context: 'prod' } })).toBe(true);
  });

  it('is not read by the agent and by install, which share the variables only', async () => {
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
