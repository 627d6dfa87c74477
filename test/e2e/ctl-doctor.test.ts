// Causes faults on a real node, and checks that exactly the expected findings appear and disappear.
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Agent, startAgent } from '../support/agent.ts';
import { type RunResult, startNode, type TestNode } from '../support/node.ts';
import { NETPLUGCTL } from '../support/built.ts';
import { until } from '../support/until.ts';

const CONFLIST = '/etc/cni/net.d/10-netplug.conflist';
const ATTEMPTS = 5;

let node: TestNode;
let agent: Agent;
beforeAll(async () => {
  node = await startNode({ mode: 'standalone' });
  await node.seedPool('v4', '10.65.0.0/24');
  await node.exec('mkdir', '-p', '/var/log/netplug/cni');
  await node.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1');
  await writeConflist({});
  // The plugins of the node are links to the built files, which other tests use at the same time.
  await shell('cd /opt/cni/bin && cp netplug own && ln -f own netplug && ln -f own netplug-ipam && rm own');
  agent = await startOwnAgent();
});
afterAll(async () => {
  await agent?.stop();
  await node[Symbol.asyncDispose]();
});

/** Policies are on, whose tables drop packets of pods. */
async function startOwnAgent(): Promise<Agent> {
  return startAgent(node, { socket: node.socket, env: { NETPLUG_POLICY: 'on' } });
}

async function write(path: string, text: string): Promise<void> {
  await node.run(['tee', path], { stdin: text });
}

async function writeConflist(more: object): Promise<void> {
  const { name, cniVersion, ...netplug } = node.netconf(more);
  await write(CONFLIST, JSON.stringify({ name, cniVersion, plugins: [netplug] }));
}

interface FoundOnNode {
  readonly status: number | undefined;
  readonly findings: readonly { readonly id: string; readonly severity: string; readonly found: string }[];
}

/** Runs the doctor against the agent of the node; the node shares /run with the machine. */
async function runDoctor(env: Readonly<Record<string, string>>, ...more: readonly string[]): Promise<RunResult> {
  const where = ['--socket', node.socket, '--health', '127.0.0.1:9199'];
  return node.run([NETPLUGCTL, 'doctor', ...where, ...more], { env: { NETPLUG_RUN_DIR: `${node.dir}/agent`, ...env } });
}

async function diagnose(): Promise<FoundOnNode> {
  const { status, stdout, stderr } = await runDoctor({}, '-o', 'json');
  if (stdout === '') throw new Error(stderr);
  const { findings } = JSON.parse(stdout) as Pick<FoundOnNode, 'findings'>;
  return { status, findings };
}

/** Omits the note that a configuration without policy.type ignores annotations: no API server runs here. */
async function doctor(): Promise<{ readonly status: number | undefined; readonly ids: readonly string[] }> {
  const { status, findings } = await diagnose();
  return { status, ids: findings.map(({ id }) => id).filter((id) => id !== 'config/annotations-ignored') };
}

interface Breakage {
  readonly what: string;
  /** Ids of the expected findings, in the order of the report. */
  readonly ids: readonly string[];
  readonly damage: () => Promise<unknown>;
  readonly repair: () => Promise<unknown>;
  /** Set when no finding is an error. */
  readonly status?: 0;
}

const shell = async (script: string): Promise<string> => node.exec('sh', '-c', script);
const etcdctl = async (...args: string[]): Promise<string> =>
  node.exec('env', 'ETCDCTL_API=3', 'etcdctl', '--endpoints=http://127.0.0.1:2379', ...args);
const editPool = async (edit: (text: string) => string): Promise<void> => {
  const key = '/netplug/v3/resources/ippools/v4';
  const text = await etcdctl('get', '--print-value-only', key);
  await etcdctl('put', key, edit(text.trim()));
};

/** Creates a key and an expired certificate. */
function makeExpired(folder: string): { readonly keyFile: string; readonly certFile: string } {
  const [keyFile, certFile, request] = ['key', 'crt', 'csr'].map((ending) => join(folder, `old.${ending}`));
  const openssl = (...args: string[]): unknown => execFileSync('openssl', args, { stdio: 'ignore' });
  openssl('req', '-new', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=old', '-keyout', keyFile!, '-out', request!);
  openssl('x509', '-req', '-in', request!, '-signkey', keyFile!, '-days', '-1', '-out', certFile!);
  execFileSync('chmod', ['0600', keyFile!]);
  return { keyFile: keyFile!, certFile: certFile! };
}

const BREAKAGES: readonly Breakage[] = [
  {
    what: 'a socket that every user can open',
    ids: ['files/socket-mode'],
    damage: async () => node.exec('chmod', '0666', node.socket),
    repair: async () => node.exec('chmod', '0600', node.socket),
  },
  {
    what: 'a state folder and a journal that other users can access',
    ids: ['files/exposed', 'files/open-folder'],
    damage: async () => shell('chmod 0777 /var/lib/netplug; chmod 0644 /var/lib/netplug/journal/*'),
    repair: async () => shell('chmod 0755 /var/lib/netplug; chmod 0600 /var/lib/netplug/journal/*'),
  },
  {
    what: 'plugins that are not executable',
    ids: ['config/program-not-executable', 'config/program-not-executable'],
    damage: async () => shell('chmod 0644 /opt/cni/bin/netplug-ipam'),
    repair: async () => shell('chmod 0755 /opt/cni/bin/netplug-ipam'),
  },
  {
    what: 'the configuration of another plugin before that of netplug',
    ids: ['config/not-first'],
    damage: async () => write('/etc/cni/net.d/05-bridge.conf', '{"cniVersion":"1.0.0","name":"b","type":"bridge"}'),
    repair: async () => node.exec('rm', '/etc/cni/net.d/05-bridge.conf'),
  },
  {
    what: 'a configuration with a misspelt option',
    // The doctor finds the datastore by the same configuration as the plugin.
    ids: ['config/invalid', 'datastore/unusable'],
    damage: async () => writeConflist({ log_levl: 'DEBUG' }),
    repair: async () => writeConflist({}),
  },
  {
    what: 'a TLS file beside a plain endpoint',
    // The doctor finds the datastore by the same configuration as the plugin.
    ids: ['config/invalid', 'datastore/unusable'],
    damage: async () => writeConflist({ kv_ca_cert_file: '/etc/ssl/ca.pem' }),
    repair: async () => writeConflist({}),
  },
  {
    what: 'an expired certificate',
    ids: ['credentials/expired', 'datastore/unusable'],
    damage: async () => {
      const { keyFile, certFile } = makeExpired(node.dir);
      const kv_endpoints = 'https://127.0.0.1:2379';
      await writeConflist({ kv_endpoints, kv_key_file: keyFile, kv_cert_file: certFile });
    },
    repair: async () => writeConflist({}),
  },
  {
    what: 'a firewall that drops forwarded packets',
    ids: ['kernel/forward-dropped'],
    damage: async () => node.exec('iptables-nft', '-P', 'FORWARD', 'DROP'),
    repair: async () => node.exec('iptables-nft', '-P', 'FORWARD', 'ACCEPT'),
  },
  {
    what: 'a pool that selects no node',
    ids: ['pools/node-unserved', 'pools/selects-none'],
    damage: async () => editPool((text) => text.replace('all()', 'has(nothing)')),
    repair: async () => editPool((text) => text.replace('has(nothing)', 'all()')),
  },
  {
    what: 'a leaked address',
    ids: ['ipam/leaked-address'],
    damage: async () => {
      const call = { containerId: 'c-leak', netns: (await node.pod()).path, conf: node.netconf() };
      expect((await node.cni('ADD', call)).status).toBe(0);
      await agent.settled();
      const [key = ''] = (await etcdctl('get', '--prefix', '/netplug/v3/ipam/blocks/', '--keys-only')).split('\n');
      const text = await etcdctl('get', '--print-value-only', key);
      await etcdctl('put', key, text.trim().replaceAll(/"at":"[^"]*"/g, '"at":"2026-01-01T00:00:00Z"'));
      const [link = ''] = await node.hostLinks();
      await node.exec('ip', 'link', 'delete', 'dev', link);
    },
    repair: async () => node.exec(NETPLUGCTL, 'ipam', 'check', '--fix'),
    status: 0,
  },
  {
    what: 'a disabled pool',
    ids: ['pools/none'],
    damage: async () => editPool((text) => text.replace('"disabled":false', '"disabled":true')),
    repair: async () => editPool((text) => text.replace('"disabled":true', '"disabled":false')),
  },
  {
    what: 'an agent that was killed',
    ids: ['agent/silent', 'agent/stale-socket', 'agent/left-journal'],
    damage: async () => agent.stop('KILL'),
    repair: async () => (agent = await startOwnAgent()),
  },
];

describe('netplugctl doctor on a node', () => {
  it('finds no problems on a healthy node, on which policies are enforced', async () => {
    await until(
      async () => (await node.exec('nft', 'list', 'tables')).includes('netplug-policy'),
      'the table of policies is there',
    );
    expect(await doctor()).toEqual({ status: 0, ids: [] });
  });

  it('notes that annotations have no effect, names the file, and exits with status 0', async () => {
    const { status, findings } = await diagnose();
    expect(status).toBe(0);
    expect(findings).toMatchObject([{ id: 'config/annotations-ignored', severity: 'note' }]);
    expect(findings[0]?.found).toContain(`"${CONFLIST}" does not set policy.type`);
  });

  it.each(BREAKAGES)('reports $what, and nothing after the repair', async ({ ids, damage, repair, status = 1 }) => {
    let found: Awaited<ReturnType<typeof doctor>> = { status: 0, ids: [] };
    // The agent repairs some of it by itself, and may be faster than the doctor.
    for (let attempt = 0; attempt < ATTEMPTS && found.ids.length === 0; attempt += 1) {
      await damage();
      found = await doctor();
    }
    await repair();
    expect(found).toEqual({ status, ids });
    expect(await doctor()).toEqual({ status: 0, ids: [] });
  });

  it('reports an unavailable datastore, and examines the remaining areas', async () => {
    const dark = await runDoctor({ KV_ENDPOINTS: 'http://127.0.0.1:1' });
    expect(dark).toMatchObject({ status: 1, stdout: expect.stringContaining('datastore/unusable') });
    expect(dark.stdout).toContain(
      'left out: versions, nodes, controllers, typha, policies, mesh, pools, addresses, ipam (the datastore cannot be used)\n',
    );
    expect(dark.stdout).toContain('agent  ');
  });
});
