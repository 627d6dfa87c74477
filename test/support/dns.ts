import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** An SRV record; its target resolves to 127.0.0.1. */
export interface SrvRecord {
  readonly service: string;
  readonly target: string;
  readonly port: number;
}

/**
 * Runs an ES module with a real DNS server (dnsmasq) that knows only the given records, and returns its output. Both
 * live in network and mount namespaces of their own: the machine's own resolver is neither used nor changed. Etcd must
 * be started by `before`, a shell line, because the namespace has a loopback of its own; everything ends with the module.
 */
export async function runWithDns(options: {
  readonly records: readonly SrvRecord[];
  /** Names that the server never answers for. */
  readonly silent?: readonly string[];
  readonly before?: string;
  readonly module: string;
}): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'netplug-dns-'));
  try {
    const hosts = [...new Set(options.records.map(({ target }) => target))];
    await writeFile(join(dir, 'resolv.conf'), 'nameserver 127.0.0.1\n');
    await writeFile(join(dir, 'module.ts'), options.module);
    await writeFile(join(dir, 'hosts'), `127.0.0.1 localhost\n${hosts.map((host) => `127.0.0.1 ${host}\n`).join('')}`);
    await writeFile(
      join(dir, 'dnsmasq.conf'),
      [
        'no-resolv',
        'no-hosts',
        'port=53',
        'listen-address=127.0.0.1',
        'bind-interfaces',
        'user=root',
        `pid-file=${join(dir, 'dnsmasq.pid')}`,
        ...options.records.map(({ service, target, port }) => `srv-host=${service},${target},${String(port)}`),
        ...hosts.map((host) => `address=/${host}/127.0.0.1`),
        // Sent on to a server that does not listen.
        ...(options.silent ?? []).map((name) => `server=/${name}/127.0.0.1#9`),
        // Any other name below the test domain does not exist, at once.
        'local=/test/',
      ].join('\n'),
    );
    const script = [
      'set -e',
      'ip link set lo up',
      'mount --make-rprivate /',
      `mount --bind "${dir}/resolv.conf" /etc/resolv.conf`,
      `mount --bind "${dir}/hosts" /etc/hosts`,
      `cd "${dir}"`,
      `dnsmasq --keep-in-foreground --conf-file="${dir}/dnsmasq.conf" 2>/dev/null &`,
      options.before ?? '',
      `"${process.execPath}" "${dir}/module.ts"`,
    ].join('\n');
    // The first process of a PID namespace takes all others with it when it ends.
    const args = ['--net', '--mount', '--pid', '--fork', '--kill-child', '/bin/sh', '-c', script];
    const { stdout } = await promisify(execFile)('unshare', args, { timeout: 60_000 });
    return stdout.trim();
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
