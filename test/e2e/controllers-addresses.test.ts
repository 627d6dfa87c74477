// Garbage collection of addresses on both datastores, with a real API server.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ControllersScene, openControllersScene, readiness } from '../support/controllers-scene.ts';
import { CTL_DATASTORES } from '../support/ctl-datastores.ts';
import { poolOf } from '../support/fixtures.ts';
import { holdAddress } from '../support/held-address.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;

describe.each(CTL_DATASTORES)('garbage collection of addresses on $type', (on) => {
  const scope = new AsyncDisposableStack();
  let scene: ControllersScene;

  beforeAll(async () => {
    scene = await openControllersScene(on, scope);
    const { api, datastore } = scene;
    await datastore.store.createResource(poolOf('pods', '10.64.0.0/24', { blockSize: 29 }), FOREVER);
    const spec = { controllers: { node: { leakGracePeriod: '8s' } } };
    const configuration = {
      apiVersion: 'netplug.io/v3',
      kind: 'ControllersConfiguration',
      metadata: { name: 'default' },
      spec,
    };
    await datastore.run(['apply', '-f', '-'], { stdin: JSON.stringify(configuration) });
    for (const name of ['n1', 'n2', 'n3'])
      await scene.addNode(name, { status: readiness(name === 'n1' ? 'True' : 'Unknown') });
    await api.kubectl('taint', 'node', 'n3', 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute');
  }, 300_000);
  afterAll(async () => scope.disposeAsync());

  async function hold(container: string, node: string, pod?: { name: string; uid: string }): Promise<string> {
    return holdAddress(scene.datastore.store, { container, node, pod: pod && { namespace: 'default', ...pod } });
  }

  it('lists and releases addresses of nodes that are gone with their blocks, and of pods that are gone where nothing runs', async () => {
    const { api, datastore, held } = scene;
    const living = await hold('c1', 'n3', { name: 'living', uid: await scene.addPod('living', 'n3') });
    const replaced = await hold('c2', 'n3', { name: 'living', uid: 'of-an-older-pod' });
    const gone = await hold('c3', 'n3', { name: 'gone', uid: 'u3' });
    const container = await hold('c4', 'n3');
    // The API was made to forget the pod: it may run on.
    const forgotten = await hold('c7', 'n1', { name: 'forced', uid: 'u7' });
    const unreachable = await hold('c5', 'n2', { name: 'lost', uid: 'u5' });
    const foreign = await hold('c6', 'other', undefined);
    const replica = await scene.launch();
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
