import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunResult, type Service, startNode, type TestNode, until } from '../support/node.ts';
import { ensureUplink } from '../support/uplink.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const UNIT = '/usr/lib/systemd/system/netplug-agent.service';
const ENV_FILE = '/etc/netplug/agent.env';
const METRICS = '127.0.0.1:9097';
const SETTINGS = `KV_ENDPOINTS=http://127.0.0.1:2379\nNODENAME=node-a\nNETPLUG_METRICS_ADDRESS=${METRICS}\n`;

const out = mkdtempSync(join(tmpdir(), 'netplug-deb-test-'));
let node: TestNode;
let packages: string[];
let address: string;
let agent: Service;

beforeAll(async () => {
  if (!existsSync(join(ROOT, 'dist/bin/netplugctl'))) throw new Error('dist/bin is missing: run "make build" first');
  packages = [await build('one', '0022'), await build('other', '0077')];
  node = await startNode({ ownRun: true, mode: 'standalone', plugins: 'standard' });
  // The package writes to /usr as well.
  const overlay = `lowerdir=/usr,upperdir=${node.dir}/usr,workdir=${node.dir}/usr.work`;
  await sh(`mkdir ${node.dir}/usr ${node.dir}/usr.work && mount -t overlay overlay -o ${overlay} /usr`);
  await node.seedPool('v4', '10.65.0.0/24');
  await ensureUplink(node);
}, 300_000);
afterAll(async () => {
  await node[Symbol.asyncDispose]();
  rmSync(out, { recursive: true });
});

/** Builds the package with a file mode mask, into a folder of its own. */
async function build(name: string, mask: string): Promise<string> {
  const env = { ...process.env, SOURCE_DATE_EPOCH: '1764028800', TZ: name === 'one' ? 'UTC' : 'Asia/Tokyo' };
  const command = `umask ${mask}; exec "$0" scripts/build-deb.ts "$1"`;
  const args = ['-c', command, process.execPath, join(out, name)];
  const { stdout } = await promisify(execFile)('sh', args, { cwd: ROOT, env });
  return resolve(ROOT, stdout.trim());
}

async function sh(script: string): Promise<string> {
  return node.exec('sh', '-c', script);
}

async function dpkg(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<RunResult> {
  return node.run(['dpkg', ...args], { env: { DEBIAN_FRONTEND: 'noninteractive', ...env } });
}

/** Starts the agent as the unit says: its command with its environment, capabilities and privileges. */
async function startByUnit(): Promise<Service> {
  const unit = await sh(`cat ${UNIT}`);
  const setting = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';
  expect(setting('EnvironmentFile')).toBe(`-${ENV_FILE}`);
  expect(setting('NoNewPrivileges')).toBe('yes');
  const lines = (await sh(`cat ${ENV_FILE}`)).split('\n').filter((line) => /^\w+=/.test(line));
  const capabilities = setting('CapabilityBoundingSet')
    .split(' ')
    .map((name) => `+${name.replace('CAP_', '').toLowerCase()}`);
  const setpriv = ['setpriv', '--no-new-privs', `--bounding-set=-all,${capabilities.join(',')}`];
  return node.start([...setpriv, ...setting('ExecStart').split(' ')], {
    env: Object.fromEntries(lines.map((line) => [line.replace(/=.*/, ''), line.replace(/^\w+=/, '')])),
  });
}

async function page(path: string, at = METRICS): Promise<string> {
  const { stdout } = await node.run([
    'curl',
    '--silent',
    '--max-time',
    '2',
    '-w',
    '\n%{http_code}',
    `http://${at}${path}`,
  ]);
  return stdout;
}

const pings = async (): Promise<boolean> => (await node.run(['ping', '-c', '1', '-W', '2', address])).status === 0;

describe('the Debian package', () => {
  it('is the same, byte for byte, when it is built again with another mask and time zone', () => {
    const [one, other] = packages.map((file) => createHash('sha256').update(readFileSync(file)).digest('hex'));
    expect(one).toBe(other);
  });

  it('installs files of the expected owners, modes and checksums, and a unit that systemd accepts', async () => {
    expect(await dpkg(['--install', packages[0]!])).toMatchObject({ status: 0 });
    expect(await dpkg(['--verify', 'netplug'])).toMatchObject({ status: 0, stdout: '' });
    const listed = await sh('stat -c "%A %U %n" /opt/cni/bin/netplug* /usr/sbin/netplug-agent /etc/netplug/agent.env');
    expect(listed.trim().split('\n')).toEqual([
      '-rwxr-xr-x root /opt/cni/bin/netplug',
      '-rwxr-xr-x root /opt/cni/bin/netplug-ipam',
      '-rwxr-xr-x root /opt/cni/bin/netplug-standalone',
      '-rwxr-xr-x root /usr/sbin/netplug-agent',
      '-rw-r--r-- root /etc/netplug/agent.env',
    ]);
    expect(await node.run(['systemd-analyze', 'verify', UNIT])).toMatchObject({ status: 0, stdout: '', stderr: '' });
    expect(await sh('KV_ENDPOINTS=http://127.0.0.1:2379 netplugctl version')).toContain('3.27.0');
  });

  it('has an agent that serves calls, started as the unit says, and shows metrics at their own address', async () => {
    await sh(`printf '%s' '${SETTINGS}' >> ${ENV_FILE}`);
    agent = await startByUnit();
    await until(
      async () => (await page('/readyz', '127.0.0.1:9098')).endsWith('\n200'),
      () => agent.log(),
    );
    await sh('ip netns add pod-a');
    const call = { containerId: 'a', netns: '/run/netns/pod-a', conf: node.netconf() };
    const { status, json } = await node.cni('ADD', { ...call, env: { NETPLUG_SOCKET: '' } });
    expect(status).toBe(0);
    address = json.ips[0].address.replace(/\/.*/, '');
    expect(await pings()).toBe(true);
    expect(await page('/metrics')).toContain('netplug_calls_total{command="ADD",code="ok"} 1');
    for (const path of ['/healthz', '/readyz']) expect(await page(path)).toBe('there is only /metrics\n\n404');
  });

  it('keeps settings, agent and pods while it is installed over itself', async () => {
    expect(await dpkg(['--install', packages[1]!])).toMatchObject({ status: 0 });
    expect(await sh(`tail -n 3 ${ENV_FILE}`)).toBe(SETTINGS);
    expect(await pings()).toBe(true);
    await sh(`kill -0 ${String(agent.pid)}`);
  });

  it('is not removed while a pod uses it, unless asked, and cuts no pod', async () => {
    const refused = await dpkg(['--remove', 'netplug']);
    expect(refused.status).not.toBe(0);
    expect(refused.stderr).toContain('Cannot remove the package: pods of this host use netplug (interface npl');
    expect(await dpkg(['--verify', 'netplug'])).toMatchObject({ stdout: '??5?????? c /etc/netplug/agent.env\n' });
    expect(await dpkg(['--remove', 'netplug'], { NETPLUG_REMOVE_IN_USE: 'yes' })).toMatchObject({ status: 0 });
    expect(await pings()).toBe(true);
    expect(await sh('ls /opt/cni/bin')).not.toContain('netplug');
  });

  it('leaves the state of the node when purged, unless asked to remove it', async () => {
    await agent.stop();
    expect(await dpkg(['--purge', 'netplug'])).toMatchObject({ status: 0 });
    expect(await sh('ls -d /etc/netplug || true')).toBe('');
    expect(await sh('cat /var/lib/netplug/nodename')).toBe('node-a\n');
    await dpkg(['--install', packages[0]!]);
    const asked = { NETPLUG_REMOVE_IN_USE: 'yes', NETPLUG_PURGE_STATE: 'yes' };
    expect(await dpkg(['--purge', 'netplug'], asked)).toMatchObject({ status: 0 });
    expect(await sh('ls -d /var/lib/netplug /etc/netplug 2>/dev/null || true')).toBe('');
    expect(await pings()).toBe(true);
  });
});
