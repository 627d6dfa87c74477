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

/** A module that pings the datastore, replaces the DNS server by one without encrypted records, and pings again. */
const pingingTwice = (domain: string): string => `
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openKvStore } from ${JSON.stringify(store)};
const endpoints = { from: 'srv', domain: ${JSON.stringify(domain)} } as const;
await using kv = openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined });
const limit = AbortSignal.timeout(20_000);
const ping = async (pattern) => {
  for (;;) {
    const outcome = await kv.ping(limit).then(() => 'answered', (error) => error.code + ' ' + error.message);
    if (pattern.test(outcome) || limit.aborted) return console.log(outcome);
    await sleep(50);
  }
};
await ping(/ at https:/);
const text = readFileSync('dnsmasq.conf', 'utf8');
writeFileSync('plain.conf', text.split('\\n').filter((line) => !line.includes('-ssl')).join('\\n'));
process.kill(Number(readFileSync('dnsmasq.pid', 'utf8')));
const second = spawn('dnsmasq', ['--keep-in-foreground', '--conf-file=plain.conf'], { stdio: 'ignore' });
await ping(/answered|config-invalid|at http:/);
second.kill();
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
  it('uses encrypted records alone where there are any, and plain ones otherwise [kv-srv]', async () => {
    using folder = makeTlsFolder();
    const authority = folder.authority('ours');
    const pair = authority.issue('etcd', ['kv-1.test']);
    const dir = await mkdtemp(join(tmpdir(), 'netplug-srv-'));
    try {
      const before = [
        etcdAt(dir, 2379),
        etcdAt(dir, 3379, `--key-file=${pair.keyFile} --cert-file=${pair.certFile}`),
      ].join('\n');
      const run = async (records: readonly SrvRecord[], caCertFile?: string, patience?: number): Promise<string> =>
        runWithDns({ records, before, module: pinging('netplug.test', caCertFile, patience) });
      const both = [plain('netplug.test', 2379), encrypted('netplug.test', 3379)];
      expect(await run([plain('netplug.test', 2379)])).toBe('answered');
      expect(await run([encrypted('netplug.test', 3379)], authority.certFile)).toBe('answered');
      expect(await run([plain('netplug.test', 1), ...both.slice(1)], authority.certFile)).toBe('answered');
      // The plain endpoint would answer.
      const fallen = await run([plain('netplug.test', 2379), encrypted('netplug.test', 1)], undefined, 20);
      expect(fallen).toMatch(/^store\/unavailable .* at https:\/\/kv-1\.test:1: .*ECONNREFUSED/);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });

  it('never uses plain records where a TLS file is set, even when the encrypted ones are hidden', async () => {
    using folder = makeTlsFolder();
    const { certFile } = folder.authority('ours');
    const records = [plain('netplug.test', 2379)];
    const outcome = await runWithDns({ records, module: pinging('netplug.test', certFile) });
    expect(outcome).toMatch(/^store\/config-invalid .*an encrypted endpoint is required.*ENOTFOUND/);
  });

  it('does not take a DNS server that answers for plain records alone as proof that there are no others', async () => {
    const records = [plain('netplug.test', 2379)];
    const silent = ['_etcd-client-ssl._tcp.netplug.test'];
    const outcome = await runWithDns({ records, silent, module: pinging('netplug.test') });
    expect(outcome).toMatch(/^store\/unavailable .*_etcd-client-ssl\._tcp\.netplug\.test \(ETIMEOUT\)/);
  });

  it('does not fall from encrypted to plain records in the same program when the former vanish', async () => {
    const records = [encrypted('netplug.test', 1), plain('netplug.test', 2379)];
    const outcome = await runWithDns({ records, module: pingingTwice('netplug.test') });
    expect(outcome.split('\n')).toEqual([
      expect.stringMatching(/^store\/unavailable .* at https:\/\/kv-1\.test:1: .*ECONNREFUSED/),
      expect.stringMatching(/^store\/config-invalid .*an encrypted endpoint is required.*ENOTFOUND/),
    ]);
  });

  it('fails with store/config-invalid when it finds nothing, naming the domain and the error of DNS', async () => {
    const records = [plain('other.test', 2379)];
    const outcome = await runWithDns({ records, module: pinging('netplug.test') });
    expect(outcome).toMatch(/^store\/config-invalid .*domain "netplug\.test".*ENOTFOUND/);
  });
});
