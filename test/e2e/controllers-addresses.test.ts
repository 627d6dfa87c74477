// Garbage collection of addresses on both datastores, with a real API server.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { heldAddresses } from '../../src/model/ip-block.ts';
import { formatAddress } from '../../src/net/address.ts';
import { launchControllers, type Replica } from '../support/controllers.ts';
import { CTL_DATASTORES, type CtlDatastore } from '../support/ctl-datastores.ts';
import { nodeOf, poolOf } from '../support/fixtures.ts';
import { holdAddress } from '../support/held-address.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
const NODES = ['n1', 'n2', 'n3'];

describe.each(CTL_DATASTORES)('garbage collection of addresses on $type', ({ type, start }) => {
  const scope = new AsyncDisposableStack();
  let datastore: CtlDatastore;
  let api: ApiServer;
  let replica: Replica;

  beforeAll(async () => {
    datastore = scope.use(await start());
    api = datastore.server ?? scope.use(await startApiServer());
    await datastore.store.createResource(poolOf('pods', '10.64.0.0/24', { blockSize: 29 }), FOREVER);
    const spec = { controllers: { node: { leakGracePeriod: '8s' } } };
    const configuration = {
      apiVersion: 'netplug.io/v3',
      kind: 'ControllersConfiguration',
      metadata: { name: 'default' },
      spec,
    };
    await datastore.run(['apply', '-f', '-'], { stdin: JSON.stringify(configuration) });
    await api.apply(NODES.map((name) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name } })));
    await setReady('n1', 'True');
    await setReady('n2', 'Unknown');
    await setReady('n3', 'Unknown');
    await api.kubectl('taint', 'node', 'n3', 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute');
    // On etcd the agents of the nodes do this.
    if (type === 'kv') for (const name of NODES) await datastore.store.createResource(nodeOf(name), FOREVER);
  }, 300_000);
  afterAll(async () => scope.disposeAsync());

  async function setReady(node: string, status: string): Promise<void> {
    const body = JSON.stringify({ status: { conditions: [{ type: 'Ready', status }] } });
    await api.kubectl('patch', 'node', node, '--subresource=status', '--type=merge', '-p', body);
  }

  async function addPod(name: string, node: string): Promise<string> {
    const spec = { nodeName: node, containers: [{ name: 'c', image: 'i' }], automountServiceAccountToken: false };
    await api.apply([{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'default' }, spec }]);
    return (await api.kubectl('get', 'pod', name, '-n', 'default', '-o=jsonpath={.metadata.uid}')).trim();
  }

  async function hold(container: string, node: string, pod?: { name: string; uid: string }): Promise<string> {
    return holdAddress(datastore.store, { container, node, pod: pod && { namespace: 'default', ...pod } });
  }

  async function held(): Promise<readonly string[]> {
    const { blocks } = await datastore.store.listBlocks(FOREVER);
    return blocks.flatMap(({ value }) => heldAddresses(value).map(({ address }) => formatAddress(address))).sort();
  }

  it('lists and releases addresses of nodes that are gone with their blocks, and of pods that are gone where nothing runs', async () => {
    const living = await hold('c1', 'n3', { name: 'living', uid: await addPod('living', 'n3') });
    const replaced = await hold('c2', 'n3', { name: 'living', uid: 'of-an-older-pod' });
    const gone = await hold('c3', 'n3', { name: 'gone', uid: 'u3' });
    const container = await hold('c4', 'n3');
    // The API was made to forget the pod: it may run on.
    const forgotten = await hold('c7', 'n1', { name: 'forced', uid: 'u7' });
    const unreachable = await hold('c5', 'n2', { name: 'lost', uid: 'u5' });
    const foreign = await hold('c6', 'other', undefined);
    replica = scope.use(
      await launchControllers('one', {
        kubeconfig: api.kubeconfig,
        ...(type === 'kv' ? { etcdUrl: datastore.env['KV_ENDPOINTS'] ?? '' } : {}),
      }),
    );
    const metric = async (name: string): Promise<number | undefined> => replica.metric(`netplug_controllers_${name}`);
    // In this order: the addresses were held while they were listed.
    let beforeRelease: readonly string[] = [];
    await until(
      async () => {
        beforeRelease = await held();
        return (await metric('leaked_addresses')) === 2;
      },
      () => `both are listed:\n${replica.log()}`,
    );
    expect(beforeRelease).toEqual([living, replaced, gone, container, forgotten, unreachable, foreign].sort());
    await until(async () => (await metric('released_addresses_total')) === 2, 'both are released');
    expect(await held()).toEqual([living, container, forgotten, unreachable, foreign].sort());
    // A busy API server writes events about its own services there.
    const ownEvents = async (): Promise<string[]> =>
      (await api.kubectl('get', 'events', '-n', 'default', '-o=jsonpath={.items[*].reason}'))
        .split(' ')
        .filter((reason) => reason.startsWith('Netplug'))
        .sort();
    await until(async () => (await ownEvents()).length >= 2, 'both events are written');
    expect(await ownEvents()).toEqual(['NetplugAddressesLeaked', 'NetplugAddressesReleased']);

    await api.kubectl('delete', 'node', 'n2');
    const left = [living, container, forgotten, foreign].sort().join();
    await until(
      async () => (await held()).join() === left,
      () => `the address of n2 is released:\n${replica.log()}`,
    );
    await until(async () => {
      const { blocks } = await datastore.store.listBlocks(FOREVER);
      return !blocks.some(({ value }) => value.node === 'n2');
    }, 'its block is given back');
    await until(
      async () => (await datastore.store.findResource({ kind: 'Node', name: 'n2' }, FOREVER)) === undefined,
      'it has no record',
    );
    await until(() => replica.log().includes('node retired'), 'it says so');
  });
});
