import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODE } from '../support/agent.ts';
import { chainAdd, chainCheck, chainDel, type Conflist } from '../support/chain.ts';
import { type RunResult, startNode, type TestNode, until } from '../support/node.ts';
import { BUILT, NETPLUGCTL } from '../support/built.ts';

const BIN = '/opt/cni/bin/netplug';
const STANDALONE = `${BIN}-standalone`;
const INSTALLED = [BIN, `${BIN}-ipam`, STANDALONE];
const CONFLIST = '/etc/cni/net.d/10-netplug.conflist';
const KUBECONFIG = '/etc/cni/net.d/netplug-kubeconfig';
const RECORD = '/var/lib/netplug/install.json';
const TOKEN = 'eyJhbGciOiJSUzI1NiJ9.a-very-secret-token.c2lnbmF0dXJl';
const ENV = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };
const CA = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';

let node: TestNode;
beforeAll(async () => {
  if (!existsSync(NETPLUGCTL)) throw new Error(`${NETPLUGCTL} is missing: run "make build" first`);
  node = await startNode({ name: hostname(), ownRun: true });
  await node.seedPool('v4', '10.65.0.0/24');
  // The test, not the installer, provides what the node itself brings along.
  await sh(`rm ${INSTALLED.join(' ')}`);
});
afterAll(async () => node[Symbol.asyncDispose]());

const sh = async (script: string): Promise<string> => node.exec('sh', '-c', script);
const ctl = async (args: readonly string[], env: Record<string, string> = ENV): Promise<RunResult> =>
  node.run([NETPLUGCTL, ...args], { env });
const install = async (...flags: string[]): Promise<RunResult> => ctl(['node', 'install', ...flags]);
const uninstall = async (...flags: string[]): Promise<RunResult> => ctl(['node', 'uninstall', ...flags]);

/** Lists every file of netplug in the folders, temporary files included. */
async function filesOf(...folders: string[]): Promise<string[]> {
  const found = await sh(`find ${folders.join(' ')} -name '*netplug*' -type f | sort`);
  return found.split('\n').filter((path) => path !== '');
}

/** Makes a folder with executables whose contents differ from the built ones, by bytes appended at the end. */
async function otherRelease(): Promise<string> {
  const folder = join(node.dir, 'other');
  await mkdir(folder, { recursive: true });
  await sh(
    `cd ${folder} && for name in netplug netplug-standalone; do cp ${BUILT}/$name . && echo >> $name; done && cp -l netplug netplug-ipam`,
  );
  return folder;
}

async function makePod(name: string): Promise<string> {
  await sh(`ip netns add ${name}`);
  return `/run/netns/${name}`;
}

describe('netplugctl node install', () => {
  it('makes a node serve pods, and changes nothing when it is repeated', async () => {
    const first = await install();
    expect(first).toEqual({
      status: 0,
      stdout: [
        `executable "${STANDALONE}" installed`,
        `executable "${BIN}" installed`,
        `executable "${BIN}-ipam" installed`,
        `conflist "${CONFLIST}" installed`,
        '',
      ].join('\n'),
      stderr: '',
    });
    const modes = await sh(`stat -c '%a %h' ${INSTALLED.join(' ')} ${CONFLIST} ${RECORD}`);
    expect(modes).toBe('755 2\n755 2\n755 1\n600 1\n600 1\n');
    const ino = await sh(`stat -c %i ${BIN} ${CONFLIST}`);
    expect(await install()).toEqual({ ...first, stdout: first.stdout.replaceAll('installed', 'unchanged') });
    expect(await sh(`stat -c %i ${BIN} ${CONFLIST}`)).toBe(ino);

    expect(await ctl(['lint', CONFLIST])).toMatchObject({ status: 0, stdout: '1 file: 0 errors, 0 warnings\n' });
    const list: Conflist = JSON.parse(await sh(`cat ${CONFLIST}`));
    expect(list.plugins.map(({ type }) => type)).toEqual(['netplug', 'portmap', 'bandwidth']);
    const pods = await Promise.all(
      ['c-install', 'c-peer'].map(async (containerId) => ({ containerId, netns: await makePod(containerId) })),
    );
    const results = [];
    for (const pod of pods) results.push(await chainAdd(node, list, pod));
    expect(results[0]).toMatchObject({
      cniVersion: '1.0.0',
      ips: [{ address: expect.stringMatching(/^10\.65\.0\./) }],
    });
    const [, peer] = results.map(({ ips }) => ips[0].address.split('/')[0]);
    await node.exec('nsenter', `--net=${pods[0]!.netns}`, 'ping', '-n', '-c', '1', '-W', '1', peer);
    // Some releases of the standard `bandwidth` crash in CHECK.
    const main = { ...list, plugins: list.plugins.slice(0, 1) };
    await chainCheck(node, main, { ...pods[0]!, cached: results[0] });
    for (const [index, pod] of pods.entries()) await chainDel(node, list, { ...pod, cached: results[index] });
    expect(await node.heldAddresses()).toEqual([]);
    expect(await sh('cat /var/log/netplug/cni/cni.log')).toContain('c-install');
  });

  it('replaces a running executable without disturbing the running process', async () => {
    await install();
    await using stack = new AsyncDisposableStack();
    // Without standard input it waits, after it has looked for an agent.
    const running = await node.start([BIN], { env: { CNI_COMMAND: 'VERSION', CNI_PATH: '/opt/cni/bin' } });
    stack.defer(async () => running.stop('KILL'));
    const executed = MODE === 'agent' ? BIN : STANDALONE;
    const exe = async (): Promise<string> => sh(`readlink /proc/${String(running.pid)}/exe`);
    await until(async () => (await exe()) === `${executed}\n`, 'it waits');
    const inPlace = await node.run(['sh', '-c', `cat ${BUILT}/netplug-standalone > ${executed}`]);
    expect(inPlace.stderr).toMatch(/text file busy/i);

    const replaced = await install('--from', await otherRelease());
    expect(replaced).toMatchObject({ status: 0, stderr: '' });
    expect(replaced.stdout).toContain(
      `executable "${STANDALONE}" replaced\nexecutable "${BIN}" replaced\nexecutable "${BIN}-ipam" replaced\n`,
    );
    expect(await exe()).toBe(`${executed} (deleted)\n`);
    expect(await node.cni('VERSION', { conf: { cniVersion: '1.0.0' } })).toMatchObject({ status: 0 });
    expect(await sh(`stat -c %h ${BIN}-ipam`)).toBe('2\n');
    expect(await filesOf('/opt/cni/bin')).toEqual(INSTALLED);
    // Replaces the executable that the tool itself runs from.
    await sh(`ln -f ${STANDALONE} /opt/cni/netplugctl`);
    expect(await node.run(['/opt/cni/netplugctl', 'node', 'install', '--from', BUILT], { env: ENV })).toMatchObject({
      status: 0,
    });
    await sh('rm /opt/cni/netplugctl');
  });

  it('refuses a conflist that lint refuses, and changes nothing', async () => {
    await install();
    const before = await sh(`sha256sum ${BIN} ${CONFLIST} ${RECORD}`);
    const own = join(node.dir, 'own.conflist');
    await sh(`sed 's/"assign_ipv4": "true"/"assign_ipv4": true/' ${CONFLIST} > ${own}`);
    expect(await install('--from', await otherRelease(), '--conf', own)).toEqual({
      status: 78,
      stdout: '',
      stderr: expect.stringMatching(
        /^Cannot use file ".*own\.conflist": 1 problem\n {2}plugins\[0\]\.ipam\.assign_ipv4: /,
      ),
    });
    expect(await sh(`sha256sum ${BIN} ${CONFLIST} ${RECORD}`)).toBe(before);
  });

  it('fails when a folder cannot be written', async () => {
    await sh('mkdir -p /opt/readonly && mount -t tmpfs -o ro tmpfs /opt/readonly');
    expect(await install('--bin-dir', '/opt/readonly')).toEqual({
      status: 74,
      stdout: '',
      stderr: expect.stringMatching(
        /^Cannot write "\/opt\/readonly\/netplug-standalone": the file system is read-only\n {2}hint: .*\n {2}code: install\/failed\n$/,
      ),
    });
  });

  it('leaves nothing half-written on a full disk', async () => {
    await install();
    const conflist = await sh(`cat ${CONFLIST}`);
    await sh('mkdir -p /opt/small && mount -t tmpfs -o size=1m tmpfs /opt/small');
    expect(await install('--bin-dir', '/opt/small', '--mtu', '1400')).toEqual({
      status: 74,
      stdout: '',
      stderr: expect.stringMatching(/^Cannot write "\/opt\/small\/netplug-standalone": no space left on device\n/),
    });
    expect(await sh('ls -A /opt/small')).toBe('');
    expect(await sh(`cat ${CONFLIST}`)).toBe(conflist);

    const flags = ['--conf-dir', '/opt/small'];
    expect(await install(...flags)).toMatchObject({ status: 0 });
    const before = await sh('cat /opt/small/10-netplug.conflist');
    await sh('cat /dev/zero > /opt/small/fill 2>/dev/null || true');
    expect(await install(...flags, '--mtu', '1400')).toMatchObject({ status: 74 });
    expect(await sh('cat /opt/small/10-netplug.conflist')).toBe(before);
    expect(await sh('ls -A /opt/small')).toBe('10-netplug.conflist\nfill\n');
    expect(await uninstall('--conf-dir', '/opt/small')).toMatchObject({ status: 0 });
    await sh('umount /opt/small');
  });

  it('writes the credentials of its pod into the kubeconfig, and prints them nowhere', async () => {
    const account = '/var/run/secrets/kubernetes.io/serviceaccount';
    await sh(`mkdir -p ${account} && printf %s '${TOKEN}' > ${account}/token && printf %s '${CA}' > ${account}/ca.crt`);
    const env = { ...ENV, KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const runs = [
      await ctl(['node', 'install'], env),
      await ctl(['node', 'install', '--output', 'json'], env),
      await ctl(['node', 'install', '--bin-dir', '/opt/readonly'], env),
      await ctl(['node', 'install', '--mtu', '1'], env),
      await ctl(['node', 'install', '--conf', `${account}/token`], env),
      await ctl(['node', 'install', '--config', `${account}/token`], env),
      await install('--orch-server', 'https://a', '--orch-ca-file', `${account}/token`, '--orch-token-file', '/t'),
      await install('--orch-server', 'https://a', '--orch-token-from', `${account}/ca.crt`),
      await ctl(['lint', CONFLIST]),
    ];
    expect(runs.map(({ status }) => status)).toEqual([0, 0, 74, 78, 65, 78, 64, 64, 0]);
    expect(runs.map(({ stdout, stderr }) => stdout + stderr).join('')).not.toMatch(/secret-token|MIIB/);
    expect(JSON.parse(await sh(`cat ${KUBECONFIG}`))).toMatchObject({ users: [{ user: { token: TOKEN } }] });
    expect(await sh(`stat -c %a ${KUBECONFIG}`)).toBe('600\n');
    expect(await sh(`cat ${RECORD} ${CONFLIST}`)).not.toContain(TOKEN);
    expect(runs[0]?.stdout).toMatch(/^(executable .*\n){3}kubeconfig .*\nconflist .*\n$/);
  });

  it('leaves no partial file after a timeout', async () => {
    const statuses = [];
    for (const seconds of ['0.05', '0.2', '0.3', '0.4']) {
      await uninstall('--force');
      const { status, stderr } = await install('--timeout', seconds);
      // The plan of the killed installation before may be outdated by now.
      const news = stderr.replace(/^note: Cannot continue the plan .*\n/, '');
      expect(news).toMatch(status === 0 ? /^$/ : /^Timed out after .* s\n/);
      statuses.push(status);
      // Existing files are complete.
      for (const path of await filesOf('/opt/cni'))
        expect(await sh(`cmp ${path} ${BUILT}/$(basename ${path})`)).toBe('');
    }
    // Reading the executable once takes longer than the first limit.
    expect(statuses[0]).toBe(75);
  });

  it('removes temporary files of a killed installation later', async () => {
    const left = '/opt/cni/bin/.netplug.00ff00ff00ff.netplug-tmp';
    await sh(`echo part > ${left}; touch ${left.replace('00ff', '11ff')}; touch -d '1 hour ago' ${left}`);
    await install();
    expect(await filesOf('/opt/cni/bin')).toEqual([left.replace('00ff', '11ff'), ...INSTALLED]);
    await uninstall();
    expect(await filesOf('/opt/cni/bin')).toEqual([]);
  });
});

describe('netplugctl node uninstall', () => {
  it('keeps a changed file without --force, and can be repeated', async () => {
    await install();
    await sh(`sed -i '0,/"type"/s//"mtu": 1300, "type"/' ${CONFLIST}`);
    expect(await uninstall()).toMatchObject({
      status: 1,
      stdout: expect.stringContaining(`executable "${BIN}" removed\n`),
      stderr: `warning: conflist "${CONFLIST}" was not removed, and runtimes still use it: it was changed after netplug installed it; use --force to remove it\n`,
    });
    expect(await filesOf('/opt/cni', '/etc/cni')).toEqual([CONFLIST]);
    expect(await uninstall('--force')).toMatchObject({ status: 0, stderr: '' });
    expect(await filesOf('/opt/cni', '/etc/cni')).toEqual([]);
    expect(await uninstall()).toMatchObject({ status: 0, stdout: expect.stringMatching(/^no file was installed\n/) });
  });

  it('purges interfaces with their routes, state, logs and the records of the node', async () => {
    await install();
    const list: Conflist = JSON.parse(await sh(`cat ${CONFLIST}`));
    const [main] = list.plugins;
    for (const name of ['p1', 'p2', 'p3']) {
      const conf = { ...main, cniVersion: list.cniVersion, name: list.name };
      const added = await node.cni('ADD', { containerId: name, netns: await makePod(name), conf });
      expect(added).toMatchObject({ status: 0 });
    }
    await sh('ip link add nplnobodys type veth peer name other0');
    expect(await node.hostLinks()).toHaveLength(4);
    expect(await node.heldAddresses()).toHaveLength(3);
    const purged = await uninstall('--purge', '--force');
    expect(purged).toMatchObject({ status: 0, stderr: '' });
    expect(purged.stdout.match(/^interface "npl\w+" removed$/gm)).toHaveLength(4);
    expect(await node.hostLinks()).toEqual([]);
    expect(await sh('ip route show; ip -6 route show')).not.toMatch(/npl|10\.65\./);
    expect(await sh('ls -d /var/lib/netplug /run/netplug /var/log/netplug 2>/dev/null || true')).toBe('');
    expect(await filesOf('/opt/cni', '/etc/cni')).toEqual([]);
    expect(await node.heldAddresses()).toEqual([]);
    expect(await node.endpoints()).toEqual([]);
    expect(await uninstall('--purge')).toMatchObject({ status: 0, stderr: '' });
  });

  it('keeps a foreign interface whose name starts with npl', async () => {
    await sh('ip link add nplforeign type veth peer name other1 && ip link set nplforeign alias mine');
    expect(await uninstall('--purge')).toMatchObject({
      status: 1,
      stderr: [
        'warning: interface "nplforeign" was not removed: its alias is not one of netplug\n',
        'warning: the folders of netplug are kept, so that the command can be repeated\n',
      ].join(''),
    });
    expect(await node.hostLinks()).toEqual(['nplforeign']);
    await sh('ip link del nplforeign');
  });
});
