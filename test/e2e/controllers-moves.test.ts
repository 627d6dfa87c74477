// Addresses that pods asked for, on a node that is lost, on both datastores, with a real API server. The grace period is the default.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ControllersScene, openControllersScene, readiness } from '../support/controllers-scene.ts';
import { CTL_DATASTORES } from '../support/ctl-datastores.ts';
import { poolOf } from '../support/fixtures.ts';
import { holdAddress } from '../support/held-address.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
const NODES = { living: 'n1', lost: 'n2', next: 'n3' };
/** Of the minute that a pod may wait, the orchestrator takes 20 s to delete its pods, and a runtime 15 s to try again. */
const WITHIN_MS = 20_000;

describe.each(CTL_DATASTORES)('addresses that pods asked for, on $type', (on) => {
  const scope = new AsyncDisposableStack();
  let scene: ControllersScene;

  beforeAll(async () => {
    scene = await openControllersScene(on, scope);
    const { store } = scene.datastore;
    await store.createResource(poolOf('v4', '10.64.0.0/24', { blockSize: 29 }), FOREVER);
    await store.createResource(poolOf('v6', 'fd00:64::/112', { blockSize: 122 }), FOREVER);
    for (const name of Object.values(NODES))
      await scene.addNode(name, { status: readiness(name === NODES.lost ? 'Unknown' : 'True') });
  }, 300_000);
  afterAll(async () => scope.disposeAsync());

  /** A pod with its address, as kubelet and plugin leave them. */
  async function run(name: string, node: string, asked?: string): Promise<string> {
    const uid = await scene.addPod(name, node);
    const pod = { namespace: 'default', name, uid };
    return holdAddress(scene.datastore.store, {
      container: `c-${uid}`,
      node,
      pod,
      ...(asked === undefined ? {} : { asked }),
    });
  }

  const forget = async (name: string): Promise<unknown> =>
    scene.api.kubectl('delete', 'pod', name, '-n', 'default', '--force', '--grace-period=0');

  it('move when the API says that the pod is gone and the node is out of service, and never before', async () => {
    const [fixed, dual, forced] = ['10.64.0.9', 'fd00:64::9', '10.64.0.17'];
    await run('db-0', NODES.lost, fixed);
    const beside = await run('db-1', NODES.lost, dual);
    const plain = await run('plain', NODES.lost);
    await run('forced', NODES.living, forced);
    const all = [fixed, dual, beside, plain, forced].sort();
    // The API was made to forget them. They may run on: one node is well, and of the other it is not known.
    for (const name of ['db-0', 'plain', 'forced']) await forget(name);
    const replica = await scene.launch();
    const runs = 'netplug_controllers_reconciles_total{controller="node-addresses",outcome="ok"}';
    await until(
      async () => ((await replica.metric(runs)) ?? 0) > 0,
      () => `all addresses were looked at:\n${replica.log()}`,
    );
    expect(await scene.held()).toEqual(all);

    // Pods that the API still has keep their addresses.
    await scene.api.kubectl('taint', 'node', NODES.lost, 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute');
    await until(
      async () => !(await scene.held()).includes(fixed),
      () => `the address of the pod that is gone is free:\n${replica.log()}`,
      WITHIN_MS,
    );
    expect(await scene.held()).toEqual(all.filter((each) => each !== fixed));
    await run('db-0', NODES.next, fixed);

    // Of two addresses of a pod the one moves that it asked for.
    await forget('db-1');
    await until(
      async () => !(await scene.held()).includes(dual),
      () => `the address of the next pod is free:\n${replica.log()}`,
      WITHIN_MS,
    );
    expect(await scene.held()).toEqual(all.filter((each) => each !== dual));
    const events = async (): Promise<string> =>
      scene.api.kubectl(
        'get',
        'events',
        '-n',
        'default',
        `--field-selector=involvedObject.name=${NODES.lost}`,
        '-o=yaml',
      );
    await until(
      async () => (await events()).includes(`${fixed} were released: their pods had asked for them`),
      'the node has an event',
    );
  });
});
