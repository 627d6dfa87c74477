// The specification's migration to automatic host endpoints on a node with a real agent, and with controllers that run: the
// node is neither open nor closed in between.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launchControllers, type Replica } from '../support/controllers.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { globalPolicy, type PolicedNode, startPolicedNode } from '../support/policed-node.ts';
import { answerInside, askFrom, converseFrom } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';
import { NETPLUGCTL } from '../support/built.ts';

const NODE_ADDRESS = '198.51.100.1';
const ETCD_URL = 'http://127.0.0.1:2379';

const scope = new AsyncDisposableStack();
let policed: PolicedNode;
let neighbour: TestNetns;
let server: ApiServer;
let replica: Replica;

beforeAll(async () => {
  policed = scope.use(await startPolicedNode());
  neighbour = scope.use(await newNetns());
  const { node } = policed;
  await node.host.exec('ip', 'link', 'add', 'out0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', neighbour.name);
  await node.host.exec('ip', 'address', 'add', `${NODE_ADDRESS}/24`, 'dev', 'out0');
  await node.host.exec('ip', 'link', 'set', 'dev', 'out0', 'up');
  await neighbour.exec('ip', 'address', 'add', '198.51.100.2/24', 'dev', 'eth0');
  await neighbour.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
  scope.use(await answerInside(node.host, 'node'));
  server = scope.use(
    await startApiServer({ at: { place: node, etcdUrl: ETCD_URL, address: '127.0.0.1', port: 6443 } }),
  );
  await server.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name: node.name, labels: { zone: 'a' } } }]);
  const places = { kubeconfig: server.kubeconfig, etcdUrl: ETCD_URL, place: node };
  replica = scope.use(await launchControllers('one', places));
  await until(
    async () => replica.isLeading(),
    () => `the controllers lead:\n${replica.log()}`,
  );
}, 240_000);
afterAll(async () => scope.disposeAsync());

async function ctl(...words: readonly string[]): Promise<{ status: number | undefined; stdout: string }> {
  return policed.node.run([NETPLUGCTL, ...words], { env: { KV_ENDPOINTS: ETCD_URL } });
}

async function endpoints(): Promise<readonly { metadata: { name: string; labels?: Record<string, string> } }[]> {
  const { items } = JSON.parse((await ctl('get', 'hostendpoints', '-o', 'json')).stdout) as {
    items: { metadata: { name: string; labels?: Record<string, string> } }[];
  };
  return items;
}

/** Tries what the policy allows and what it denies, all the time; returns the tries with the other outcome. */
async function watchTraffic(over: AbortSignal): Promise<{ readonly refused: number; readonly answered: number }> {
  let [refused, answered] = [0, 0];
  const allowed = async (): Promise<void> => {
    while (!over.aborted) {
      const isServed = await askFrom(neighbour, NODE_ADDRESS).then(
        () => true,
        () => false,
      );
      if (!isServed) refused += 1;
    }
  };
  const denied = async (): Promise<void> => {
    while (!over.aborted) {
      const ping = `ping -n -i 0.05 -c 20 -W 1 ${NODE_ADDRESS}; true`;
      const stdout = await neighbour.exec('sh', '-c', ping);
      answered += Number(/, (\d+) (?:packets )?received/.exec(stdout)?.[1] ?? 0);
    }
  };
  await Promise.all([allowed(), denied()]);
  return { refused, answered };
}

it('migrates to automatic endpoints without a moment in which the node is open or closed [up-autohep]', async () => {
  const { name } = policed.node;
  const old = { node: name, interfaceName: '*' };
  await policed.apply(
    globalPolicy('gateways', {
      selector: "role == 'gateway'",
      types: ['Ingress', 'Egress'],
      ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [7007] } }],
    }),
  );
  const metadata = { name: 'old', labels: { role: 'gateway' } };
  await policed.apply({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata, spec: old });
  await until(async () => !(await neighbour.pingOnce(NODE_ADDRESS)), 'the host endpoint is in force');
  using talk = await converseFrom(neighbour, NODE_ADDRESS);
  const over = new AbortController();
  const traffic = watchTraffic(over.signal);
  // The steps of the procedure, as an administrator repeats the command; nothing else is done.
  await until(
    async () => (await ctl('host-endpoints', 'migrate')).status === 0,
    () => `the migration is done:\n${replica.log()}`,
    90_000,
  );
  const auto = `${name}-auto-hep`;
  expect((await endpoints()).map((each) => each.metadata.name)).toEqual([auto]);
  await until(async () => (await endpoints())[0]?.metadata.labels?.['zone'] === 'a', 'labels of the node follow');
  await policed.node.run(['sleep', '2']);
  over.abort();
  expect(await traffic).toEqual({ refused: 0, answered: 0 });
  expect(await talk.echo('still')).toBe('still');

  // Without a policy that selects it, an automatic endpoint allows everything.
  await policed.remove('globalnetworkpolicy', 'gateways');
  await until(async () => neighbour.pingOnce(NODE_ADDRESS), 'the node is open');
}, 240_000);
