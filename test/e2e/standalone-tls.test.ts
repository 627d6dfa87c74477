// The program without an agent against an etcd with TLS: its runtime has a TLS of its own, which no other test uses.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CniAnswer, type Json, startNode, type TestNode } from '../support/node.ts';
import { resumeProcess } from '../support/node-etcd.ts';
import { type Authority, makeTlsFolder, type TlsFolder } from '../support/tls.ts';
import { until } from '../support/until.ts';
import { NETPLUGCTL } from '../support/built.ts';

const URL_OF_ETCD = 'https://127.0.0.1:3379';
/** How long a call may take that waits for a datastore without an answer: the time that etcd has to respond, and some more. */
const GIVES_UP_MS = 30_000;

let folder: TlsFolder;
let ours: Authority;
let node: TestNode;
let trusted: Json;

const pool = {
  apiVersion: 'netplug.io/v3',
  kind: 'IPPool',
  metadata: { name: 'v4' },
  spec: { cidr: '10.65.0.0/16', blockSize: 26 },
};

beforeAll(async () => {
  folder = makeTlsFolder();
  ours = folder.authority('ours');
  const server = ours.issue('etcd', ['127.0.0.1', 'localhost']);
  const client = ours.issue('netplug');
  trusted = { kv_ca_cert_file: ours.certFile, kv_cert_file: client.certFile, kv_key_file: client.keyFile };
  node = await startNode({ mode: 'standalone' });
  await node.start([
    'etcd',
    `--data-dir=${join(node.dir, 'etcd-tls')}`,
    `--listen-client-urls=${URL_OF_ETCD}`,
    `--advertise-client-urls=${URL_OF_ETCD}`,
    '--listen-peer-urls=http://127.0.0.1:3380',
    `--cert-file=${server.certFile}`,
    `--key-file=${server.keyFile}`,
    `--trusted-ca-file=${ours.certFile}`,
    '--client-cert-auth',
  ]);
  const etcdctl = [
    'etcdctl',
    `--endpoints=${URL_OF_ETCD}`,
    `--cacert=${ours.certFile}`,
    `--cert=${client.certFile}`,
    `--key=${client.keyFile}`,
  ];
  const env = { ETCDCTL_API: '3' };
  await until(async () => (await node.run([...etcdctl, 'endpoint', 'health'], { env })).status === 0, 'etcd is up');
  await node.exec('env', 'ETCDCTL_API=3', ...etcdctl, 'put', '/netplug/v3/resources/ippools/v4', JSON.stringify(pool));
});
afterAll(async () => {
  await node?.[Symbol.asyncDispose]();
  folder?.[Symbol.dispose]();
});

/** Without the agent and without the server of several calls, whose folder is missing. */
async function call(command: string, more: Json, { url = URL_OF_ETCD, env = {} } = {}): Promise<CniAnswer> {
  const pod = await node.pod();
  return node.cni(command, {
    containerId: 'c',
    netns: pod.path,
    conf: node.netconf({ kv_endpoints: url, ...more }),
    env: { NETPLUG_SOCKET: '/nowhere/cni.sock', ...env },
  });
}

describe('netplug without an agent, and an etcd with TLS', () => {
  it.each([URL_OF_ETCD, URL_OF_ETCD.replace('127.0.0.1', 'localhost')])(
    'attaches and releases a pod over %s',
    async (url) => {
      const added = await call('ADD', trusted, { url });
      expect(added.stderr + added.stdout).toContain('10.65.');
      expect(added.status).toBe(0);
      expect((await call('DEL', trusted, { url })).status).toBe(0);
    },
  );

  it.each([
    ['an authority that it does not trust', (other: Authority) => ({ ...trusted, kv_ca_cert_file: other.certFile })],
    ['no certificate of its own', () => ({ kv_ca_cert_file: ours.certFile })],
    [
      'a certificate of another authority',
      (other: Authority) => {
        const { certFile, keyFile } = other.issue('netplug');
        return { ...trusted, kv_cert_file: certFile, kv_key_file: keyFile };
      },
    ],
  ])('refuses to go on with %s, and says so', async (_what, settings) => {
    const { status, json } = await call('ADD', settings(folder.authority('other')));
    expect(status).not.toBe(0);
    expect(json).toMatchObject({ details: expect.stringContaining('store/refused') as unknown });
  });

  it('trusts the root certificates of the system without kv_ca_cert_file, as netplugctl does', async () => {
    const { kv_cert_file: KV_CERT_FILE, kv_key_file: KV_KEY_FILE } = trusted as Record<string, string>;
    const answersWith = async (SSL_CERT_FILE: string): Promise<readonly string[]> => {
      const system = { SSL_CERT_FILE };
      const status = await call('STATUS', { kv_cert_file: KV_CERT_FILE, kv_key_file: KV_KEY_FILE }, { env: system });
      const env = { KV_ENDPOINTS: URL_OF_ETCD, KV_CERT_FILE: KV_CERT_FILE!, KV_KEY_FILE: KV_KEY_FILE!, ...system };
      const version = await node.run([NETPLUGCTL, 'version'], { env });
      return [status.stdout, version.stdout + version.stderr];
    };
    const [status, version] = await answersWith(ours.certFile);
    expect(status).toBe('');
    expect(version).toContain('datastore: kvv3 reachable');
    for (const answer of await answersWith(folder.authority('other').certFile)) {
      expect(answer).toMatch(/Cannot use the kv datastore at .*: unable to verify the first certificate\W/);
      expect(answer).not.toContain('Node.js');
    }
  });

  it('ends with an error while a datastore accepts connections and never answers', async () => {
    const pid = await etcdPid();
    await node.exec('kill', '-STOP', pid);
    const onEtcd = await timed(call('ADD', trusted));
    // Only the address counts: there is no API server at all.
    const api = { datastore_type: 'orch', orch: { orch_api_root: URL_OF_ETCD } };
    const onApi = await timed(call('ADD', api));
    await resumeProcess(node, pid);
    for (const { answer, tookMs } of [onEtcd, onApi]) {
      expect(answer.status).not.toBe(0);
      expect(answer.json).toMatchObject({ details: expect.stringContaining('store/unavailable') as unknown });
      expect(tookMs).toBeLessThan(GIVES_UP_MS);
    }
  });

  it('ends with an error while nothing listens', async () => {
    await node.exec('kill', '-KILL', await etcdPid());
    const { status, json } = await call('ADD', trusted);
    expect(status).not.toBe(0);
    expect(json).toMatchObject({ details: expect.stringContaining('store/unavailable') as unknown });
  });
});

async function etcdPid(): Promise<string> {
  return (await node.exec('sh', '-c', 'pgrep -x etcd -a | grep 3379 | cut -d" " -f1')).trim();
}

async function timed(call: Promise<CniAnswer>): Promise<{ readonly answer: CniAnswer; readonly tookMs: number }> {
  const begin = performance.now();
  return { answer: await call, tookMs: performance.now() - begin };
}
