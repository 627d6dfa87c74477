import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inspectNetconf } from '../netconf/decode.ts';
import { readConnection } from './connection.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const fromEnv = async (env: Record<string, string>): ReturnType<typeof readConnection> =>
  readConnection({ config: undefined, env });

describe('a connection from the environment', () => {
  it('follows the rules of the network configuration, in capitals [ctl-env]', async () => {
    const options = { KV_DISCOVERY_SRV: 'example.org', KV_KEY_FILE: '/k', KV_CERT_FILE: '/c', KV_SCHEME: 'https' };
    const lower = Object.fromEntries(Object.entries(options).map(([key, value]) => [key.toLowerCase(), value]));
    const { netconf, warnings } = inspectNetconf(
      { name: 'n', type: 'netplug', ipam: { type: 'netplug-ipam' }, ...lower },
      'network',
    );
    expect(await fromEnv(options)).toEqual({
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

  it('takes an empty variable for none [ctl-env]', async () => {
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

describe('a connection from a file', () => {
  const read = async (text: string): ReturnType<typeof readConnection> => {
    const config = join(folder, 'ctl.yaml');
    await writeFile(config, text);
    return readConnection({ config, env: { KV_ENDPOINTS: 'http://env:1' } });
  };

  it.each(['kv_endpoints: http://file:1\n', 'KV_ENDPOINTS: http://file:1\n', '{"kv_endpoints": "http://file:1"}'])(
    'wins over the environment: %j',
    async (text) => {
      expect((await read(text)).datastore).toMatchObject({ connection: { endpoints: { urls: ['http://file:1'] } } });
    },
  );

  it('knows a slip in a key, and what peers call it', async () => {
    await expect(read('kv_endpoint: http://a:1\n')).rejects.toMatchObject({
      message: expect.stringContaining('did you mean "kv_endpoints"?'),
    });
    await expect(read('etcd_endpoints: http://a:1\n')).rejects.toMatchObject({ code: 'netconf/invalid' });
    await expect(read('a list? no\n')).rejects.toMatchObject({ code: 'netconf/invalid' });
  });
});
