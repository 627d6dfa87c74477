// A node that host endpoints close keeps its datastore, which is on a port that no setting names.
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { globalPolicy, type PolicedNode, startPolicedNode } from '../support/policed-node.ts';
import { answerInside, askFrom, within } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';

const NODE_ADDRESS = '198.51.100.1';
const NEIGHBOUR_ADDRESS = '198.51.100.2';
const PORTS = { first: 12_379, second: 22_379, other: 32_379 };

const scope = new AsyncDisposableStack();
let policed: PolicedNode;
let neighbour: TestNetns;
let datastore: RemoteDatastore;

beforeAll(async () => {
  policed = scope.use(await startPolicedNode());
  neighbour = scope.use(await newNetns());
  const { host } = policed.node;
  await host.exec('ip', 'link', 'add', 'out0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', neighbour.name);
  await host.exec('ip', 'address', 'add', `${NODE_ADDRESS}/24`, 'dev', 'out0');
  await host.exec('ip', 'link', 'set', 'dev', 'out0', 'up');
  await neighbour.exec('ip', 'address', 'add', `${NEIGHBOUR_ADDRESS}/24`, 'dev', 'eth0');
  await neighbour.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
  scope.use(await answerInside(host, 'node'));
  datastore = scope.use(await RemoteDatastore.serve({ at: neighbour, in: host }));
  await policed.stopAgent('TERM');
  await policed.startAgent(reachedAt(PORTS.first));
});
afterAll(async () => scope.disposeAsync());

/** Makes the etcd of the node one of another host, on all ports. */
class RemoteDatastore implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  readonly #servers: Server[] = [];
  #turn: Promise<unknown> = Promise.resolve();

  static async serve(place: { readonly at: TestNetns; readonly in: TestNetns }): Promise<RemoteDatastore> {
    const remote = new RemoteDatastore();
    for (const port of Object.values(PORTS))
      await within(place.at, async () => {
        const server = createServer((client) => remote.#carry(client, place.in)).listen(port, '::');
        remote.#servers.push(server);
        await once(server, 'listening');
      });
    return remote;
  }

  /** Ends all connections, so that clients must open others. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await Promise.all(this.#servers.map(async (server) => once(server.close(), 'close')));
  }

  #carry(client: Socket, host: TestNetns): void {
    this.#keep(client);
    // One at a time: the thread is in one namespace.
    this.#turn = this.#turn.then(async () =>
      within(host, async () => {
        const etcd = connect(2379, '127.0.0.1');
        this.#keep(etcd);
        client.pipe(etcd).pipe(client);
        await once(etcd, 'connect').catch(() => undefined);
      }),
    );
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
  }
}

function reachedAt(port: number): Readonly<Record<string, string>> {
  return { NETPLUG_POLICY: 'on', KV_ENDPOINTS: `http://${NEIGHBOUR_ADDRESS}:${String(port)}` };
}

async function becomesServed(isServed: boolean): Promise<void> {
  const asked = async (): Promise<boolean> =>
    askFrom(neighbour, NODE_ADDRESS).then(
      () => true,
      () => false,
    );
  await until(async () => (await asked()) === isServed, `the node is ${isServed ? 'open' : 'closed'}`);
}

/** Reports whether the node reaches the port of its neighbour. */
async function reaches(port: number): Promise<boolean> {
  const command = ['timeout', '1', 'bash', '-c', `echo > /dev/tcp/${NEIGHBOUR_ADDRESS}/${String(port)}`];
  return (await policed.node.run(command)).status === 0;
}

const served = (name: string, action: 'Allow' | 'Deny', spec: object = {}): object =>
  globalPolicy(name, {
    selector: "role == 'gateway'",
    order: action === 'Allow' ? 1 : 2,
    types: ['Ingress', 'Egress'],
    ingress: [{ action, protocol: 'TCP', destination: { ports: [7007] } }],
    egress: action === 'Deny' ? [{ action }] : [],
    ...spec,
  });

it('follows changes when no policy lets the node out, also over new connections', async () => {
  const metadata = { name: 'all', labels: { role: 'gateway' } };
  const spec = { node: policed.node.name, interfaceName: '*' };
  await policed.apply({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata, spec });
  await becomesServed(false);
  datastore.cut();
  await policed.apply(served('web', 'Allow'));
  await becomesServed(true);
  expect([await reaches(PORTS.first), await reaches(PORTS.other)]).toEqual([true, false]);
});

it('keeps the datastore where packets are denied before they are tracked, and does not end its flows', async () => {
  await policed.apply(served('untracked', 'Deny', { doNotTrack: true, applyOnForward: true }));
  await becomesServed(false);
  datastore.cut();
  await policed.remove('globalnetworkpolicy', 'untracked');
  await becomesServed(true);
  expect(await reaches(PORTS.other)).toBe(false);
});

it('reads the datastore at another port when it is started for that', async () => {
  await policed.stopAgent('KILL');
  expect(await reaches(PORTS.second)).toBe(false);
  await policed.remove('globalnetworkpolicy', 'web');
  await policed.startAgent(reachedAt(PORTS.second));
  await becomesServed(false);
  await policed.remove('hostendpoint', 'all');
  await becomesServed(true);
});
