import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runWithDns, type SrvRecord } from '../support/dns.ts';
import { makeTlsFolder } from '../support/tls.ts';

const store = fileURLToPath(new URL('../../src/datastore/kv/kv-store.ts', import.meta.url));

/** A module that pings the datastore of the domain and prints the outcome. */
const pinging = (domain: string, caCertFile?: string, patience = 100): string => `
import { openKvStore } from ${JSON.stringify(store)};
const endpoints = { from: 'srv', domain: ${JSON.stringify(domain)} } as const;
await using kv = openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: ${JSON.stringify(caCertFile)} });
const limit = AbortSignal.timeout(10_000);
for (let tries = 0; ; tries += 1) {
  const outcome = await kv.ping(limit).then(() => 'answered', (error) => error.code + ' ' + error.message);
  // Etcd and the DNS server start at the same time as this module.
  if (/ECONNREFUSED/.test(outcome) && tries < ${String(patience)}) await new Promise((resolve) => setTimeout(resolve, 50));
  else { console.log(outcome); break; }
}
`;

const etcdAt = (dir: string, port: number, tls = ''): string => {
  const scheme = tls === '' ? 'http' : 'https';
  const client = `${scheme}://127.0.0.1:${String(port)}`;
  const peer = `http://127.0.0.1:${String(port + 1)}`;
  return `etcd --data-dir=${dir}/${String(port)} --name=one --listen-client-urls=${client} --advertise-client-urls=${client} --listen-peer-urls=${peer} --initial-advertise-peer-urls=${peer} --initial-cluster=one=${peer} ${tls} >/dev/null 2>&1 &`;
};

const plain = (domain: string, port: number): SrvRecord => ({
  service: `_etcd-client._tcp.${domain}`,
  target: 'kv-1.test',
  port,
});
const encrypted = (domain: string, port: number): SrvRecord => ({
  ...plain(domain, port),
  service: `_etcd-client-ssl._tcp.${domain}`,
});

describe('discovery by SRV records', () => {
  it('finds plain and encrypted endpoints, and uses whichever answers [kv-srv]', async () => {
    using folder = makeTlsFolder();
    const authority = folder.authority('ours');
    const pair = authority.issue('etcd', ['kv-1.test']);
    const dir = await mkdtemp(join(tmpdir(), 'netplug-srv-'));
    try {
      const before = [
        etcdAt(dir, 2379),
        etcdAt(dir, 3379, `--key-file=${pair.keyFile} --cert-file=${pair.certFile}`),
      ].join('\n');
      const run = async (records: readonly SrvRecord[], caCertFile?: string): Promise<string> =>
        runWithDns({ records, before, module: pinging('netplug.test', caCertFile) });
      const both = [plain('netplug.test', 2379), encrypted('netplug.test', 3379)];
      expect(await run([plain('netplug.test', 2379)])).toBe('answered');
      expect(await run([encrypted('netplug.test', 3379)], authority.certFile)).toBe('answered');
      expect(await run([plain('netplug.test', 2379), encrypted('netplug.test', 1)])).toBe('answered');
      expect(await run([plain('netplug.test', 1), ...both.slice(1)], authority.certFile)).toBe('answered');
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });

  it('asks encrypted endpoints first, each kind in the order of the records', async () => {
    const records = [plain('netplug.test', 1), encrypted('netplug.test', 2)];
    const outcome = await runWithDns({ records, module: pinging('netplug.test', undefined, 0) });
    expect(outcome).toMatch(/^store\/unavailable .* at https:\/\/kv-1\.test:2, http:\/\/kv-1\.test:1: /);
  });

  it('that finds nothing is store/config-invalid, naming the domain and the error of DNS', async () => {
    const records = [plain('other.test', 2379)];
    const outcome = await runWithDns({ records, module: pinging('netplug.test') });
    expect(outcome).toMatch(/^store\/config-invalid .*domain "netplug\.test".*ENOTFOUND/);
  });
});
