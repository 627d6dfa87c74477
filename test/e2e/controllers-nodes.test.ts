// The node controller on both datastores, with a real API server.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Replica } from '../support/controllers.ts';
import { type ControllersScene, openControllersScene } from '../support/controllers-scene.ts';
import { CTL_DATASTORES, type CtlDatastore } from '../support/ctl-datastores.ts';
import { hostEndpointOf } from '../support/fixtures.ts';
import type { ApiServer } from '../support/kube.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
const OWN = { 'netplug/created-by': 'netplug-orch-controllers' };

describe.each(CTL_DATASTORES)('the node controller on $type', ({ type, start }) => {
  const scope = new AsyncDisposableStack();
  let scene: ControllersScene;
  let datastore: CtlDatastore;
  let api: ApiServer;
  let replica: Replica;

  beforeAll(async () => {
    scene = await openControllersScene({ type, start }, scope);
    ({ datastore, api } = scene);
    replica = await scene.launchLeader();
  });
  afterAll(async () => scope.disposeAsync());

  const endpoint = async (name: string) => datastore.store.findResource({ kind: 'HostEndpoint', name }, FOREVER);
  const node = async (name: string) => datastore.store.findResource({ kind: 'Node', name }, FOREVER);

  async function addNode(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const status = { addresses: [{ type: 'InternalIP', address: '192.0.2.7' }] };
    await scene.addNode(name, { labels, status, recordLabels: { own: 'kept' } });
  }

  async function configure(hostEndpoint: object): Promise<void> {
    const spec = { controllers: { node: { hostEndpoint } } };
    const document = {
      apiVersion: 'netplug.io/v3',
      kind: 'ControllersConfiguration',
      metadata: { name: 'default' },
      spec,
    };
    const applied = await datastore.run(['apply', '-f', '-'], { stdin: JSON.stringify(document) });
    expect(applied).toMatchObject({ status: 0, stderr: '' });
  }

  it('gives each node its automatic endpoint, which follows the node, and leaves one of a user alone [up-autohep]', async () => {
    await datastore.store.createResource(hostEndpointOf('n2-auto-hep', 'n2'), FOREVER);
    await addNode('n1', { zone: 'a' });
    await addNode('n2');
    await configure({ autoCreate: 'Enabled' });
    await until(
      async () => (await endpoint('n1-auto-hep')) !== undefined,
      () => `it is there:\n${replica.log()}`,
    );
    const isFull = async (): Promise<boolean> => (await endpoint('n1-auto-hep'))?.metadata.labels?.['zone'] === 'a';
    await until(isFull, 'it has the labels of the node');
    const made = await endpoint('n1-auto-hep');
    expect(made?.metadata.labels).toMatchObject({ zone: 'a', ...OWN, ...(type === 'kv' ? { own: 'kept' } : {}) });
    expect(made?.spec).toEqual({
      node: 'n1',
      interfaceName: '*',
      expectedIPs: ['192.0.2.7'],
      profiles: ['netplug-default-allow'],
    });
    await until(
      async () => (await replica.metric('netplug_controllers_problems{controller="node"}')) === 1,
      'the collision is reported',
    );
    expect((await endpoint('n2-auto-hep'))?.metadata.labels).toBeUndefined();

    const { resourceVersion: _, ...metadata } = made!.metadata;
    const byHand = { ...made!, metadata, spec: { ...made!.spec, profiles: ['strict'], expectedIPs: ['198.51.100.1'] } };
    await datastore.store.updateResource(byHand, FOREVER);
    await api.kubectl('label', 'node', 'n1', 'zone-', 'role=gateway');
    await until(async () => {
      const { metadata: { labels = {} } = {}, spec } = (await endpoint('n1-auto-hep')) ?? {};
      return labels['role'] === 'gateway' && !('zone' in labels) && spec?.expectedIPs?.[0] === '192.0.2.7';
    }, 'it has the new label and its addresses');
    expect((await endpoint('n1-auto-hep'))?.spec.profiles).toEqual(['strict']);
  });

  it('makes endpoints by template, and removes all when they are switched off', async () => {
    await configure({
      autoCreate: 'Enabled',
      createDefaultHostEndpoint: 'Disabled',
      templates: [{ generateName: 'lan', interfaceCIDRs: ['192.0.2.0/24'], labels: { net: 'lan' } }],
    });
    await until(async () => (await endpoint('n1-lan-auto-hep')) !== undefined, 'that of the template is there');
    expect((await endpoint('n1-lan-auto-hep'))?.spec).toEqual({
      node: 'n1',
      expectedIPs: ['192.0.2.7'],
      profiles: ['netplug-default-allow'],
    });
    await until(async () => (await endpoint('n1-auto-hep')) === undefined, 'the default one is gone');
    await configure({ autoCreate: 'Disabled' });
    await until(async () => (await endpoint('n1-lan-auto-hep')) === undefined, 'that of the template is gone');
    expect(await endpoint('n2-auto-hep')).toBeDefined();
  });

  it('removes the endpoint of a node that is gone', async () => {
    await configure({ autoCreate: 'Enabled' });
    await until(async () => (await endpoint('n1-auto-hep')) !== undefined, 'it is there again');
    const note = (await node('n1'))?.metadata.annotations?.['netplug/orch-node'];
    expect(note?.includes('"uid"')).toBe(type === 'kv' ? true : undefined);
    await api.kubectl('delete', 'node', 'n1');
    await until(async () => (await endpoint('n1-auto-hep')) === undefined, 'it is gone');
  });
});
