// Host endpoints on a node with a real agent: the specification's review of an upgrade, with the kernel log.
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { globalPolicy, type PolicedNode, startPolicedNode } from '../support/policed-node.ts';
import { answerInside, askFrom, converseFrom } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const ALL_NETNS = '/proc/sys/net/netfilter/nf_log_all_netns';
const NODE_ADDRESS = '198.51.100.1';
const FLOOD = 60;
/** A rule logs at most so many lines. */
const LOG_LIMIT = { perSecond: 10, burst: 5 };
/** Tells the lines of this run from others in the log of the machine. */
const PREFIX = `np${randomBytes(4).toString('hex')}`;

const scope = new AsyncDisposableStack();
let policed: PolicedNode;
let neighbour: TestNetns;

beforeAll(async () => {
  const before = await readFile(ALL_NETNS, 'utf8');
  scope.defer(async () => writeFile(ALL_NETNS, before));
  await writeFile(ALL_NETNS, '1');
  policed = scope.use(await startPolicedNode());
  neighbour = scope.use(await newNetns());
  const { host } = policed.node;
  await host.exec('ip', 'link', 'add', 'out0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', neighbour.name);
  await host.exec('ip', 'address', 'add', `${NODE_ADDRESS}/24`, 'dev', 'out0');
  await host.exec('ip', 'link', 'set', 'dev', 'out0', 'up');
  await neighbour.exec('ip', 'address', 'add', '198.51.100.2/24', 'dev', 'eth0');
  await neighbour.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
  scope.use(await answerInside(host, 'node'));
  await configure({ policyLogPrefix: PREFIX });
});
afterAll(async () => scope.disposeAsync());

async function configure(spec: object): Promise<void> {
  const metadata = { name: `node.${policed.node.name}` };
  await policed.apply({ apiVersion: 'netplug.io/v3', kind: 'AgentConfiguration', metadata, spec });
}

async function ctl(...words: readonly string[]): Promise<string> {
  return policed.ctl('host-endpoints', ...words);
}

async function isServed(): Promise<boolean> {
  return askFrom(neighbour, NODE_ADDRESS).then(
    () => true,
    () => false,
  );
}

async function becomesServed(isOpen: boolean): Promise<void> {
  await until(async () => (await isServed()) === isOpen, `the node is ${isOpen ? 'open' : 'closed'}`);
}

/** Lines of this run in the kernel log. */
async function logged(): Promise<readonly string[]> {
  const { stdout } = await run('dmesg', [], { maxBuffer: 64 << 20 });
  return stdout.split('\n').filter((line) => line.includes(`${PREFIX}: `));
}

it('keeps a node open through an upgrade, logs what only the temporary policy allows, and closes it in the end', async () => {
  await policed.stopAgent('TERM');
  const spec = { node: policed.node.name, interfaceName: '*' };
  const metadata = { name: 'old', labels: { role: 'gateway' } };
  await policed.apply({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata, spec });
  await ctl('prepare-upgrade');
  expect(await ctl('list', '--all-interfaces')).toContain('netplug/host-endpoint-upgrade=');
  await policed.startAgent();
  await until(
    async () =>
      (await policed.node.exec('nft', 'list', 'table', 'inet', 'netplug-policy')).includes('host-local-ingress'),
    'the host endpoint is in force',
  );
  using talk = await converseFrom(neighbour, NODE_ADDRESS);
  expect(await talk.echo('hello')).toBe('hello');
  await until(async () => (await logged()).some((line) => line.includes('DPT=7007')), 'the connection is logged');
  const [line = ''] = (await logged()).filter((each) => each.includes('DPT=7007'));
  expect(line).toMatch(
    new RegExp(`${PREFIX}: IN=out0 OUT= .*SRC=198\\.51\\.100\\.2 DST=198\\.51\\.100\\.1 .*PROTO=TCP`),
  );

  const started = Date.now();
  await neighbour.exec('bash', '-c', `for i in $(seq ${String(FLOOD)}); do echo > /dev/udp/${NODE_ADDRESS}/9; done`);
  const allowed = LOG_LIMIT.burst + LOG_LIMIT.perSecond * Math.ceil((Date.now() - started) / 1000 + 1);
  const lines = (await logged()).filter((each) => each.includes('PROTO=UDP'));
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.length).toBeLessThanOrEqual(allowed);

  await policed.apply(
    globalPolicy('gateways', {
      selector: "role == 'gateway'",
      types: ['Ingress', 'Egress'],
      ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [7007] } }],
    }),
  );
  await ctl('prepare-upgrade', '--undo');
  await until(async () => !(await neighbour.pingOnce(NODE_ADDRESS)), 'the temporary policy is gone');
  expect(await isServed()).toBe(true);
  expect(await talk.echo('still')).toBe('still');
  const before = (await logged()).length;
  expect(await isServed()).toBe(true);
  expect(await logged()).toHaveLength(before);

  await policed.remove('globalnetworkpolicy', 'gateways');
  await becomesServed(false);
  await expect(talk.echo('gone')).rejects.toThrow('aborted');
});

it('keeps failsafe ports open, as the AgentConfiguration has them at that moment', async () => {
  await becomesServed(false);
  await configure({ failsafeInboundHostPorts: [{ protocol: 'TCP', port: 7007, net: '198.51.100.0/24' }] });
  await becomesServed(true);
  await configure({ failsafeInboundHostPorts: [{ protocol: 'TCP', port: 7007, net: '203.0.113.0/24' }] });
  await until(async () => !(await isServed()), 'the port is closed to this network');
  expect(await isServed()).toBe(false);
});

it('leaves the node closed when the agent is killed, and opens it when the host endpoint is deleted', async () => {
  await policed.stopAgent('KILL');
  expect(await isServed()).toBe(false);
  await policed.startAgent();
  expect(await isServed()).toBe(false);
  await policed.remove('hostendpoint', 'old');
  await becomesServed(true);
});
