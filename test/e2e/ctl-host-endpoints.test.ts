import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CTL_DATASTORES, type CtlDatastore, spawnCtl } from '../support/ctl-datastores.ts';
import { launchControllers, type ControllerPlaces } from '../support/controllers.ts';
import { hostEndpointOf } from '../support/fixtures.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const TEMPORARY = {
  selector: 'has(netplug/host-endpoint-upgrade)',
  types: ['Ingress', 'Egress'],
  ingress: [{ action: 'Log' }, { action: 'Allow' }],
  egress: [{ action: 'Log' }, { action: 'Allow' }],
};

describe.each(CTL_DATASTORES)('netplugctl host-endpoints on $type', ({ type, start }) => {
  let datastore: CtlDatastore;
  /** The controllers ask the orchestrator on every datastore. */
  let api: ApiServer | undefined;
  const run = async (words: string): ReturnType<CtlDatastore['run']> =>
    datastore.run(['host-endpoints', ...words.split(' ')]);
  beforeAll(async () => {
    datastore = await start();
    if (datastore.server === undefined) api = await startApiServer();
  });
  afterAll(async () => {
    await datastore?.[Symbol.asyncDispose]();
    await api?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    await datastore.empty();
    await putNode('n1');
    await datastore.store.createResource(hostEndpointOf('old', 'n1', { labels: { role: 'gateway' } }), never);
  });

  async function putNode(name: string): Promise<void> {
    if (datastore.server !== undefined) return datastore.server.putNode(name);
    const node = { apiVersion: 'netplug.io/v3', kind: 'Node', metadata: { name }, spec: {} } as const;
    await datastore.store.createResource(node, never);
  }

  function places(): ControllerPlaces {
    const { kubeconfig = '' } = datastore.server ?? api ?? {};
    const etcdUrl = datastore.env['KV_ENDPOINTS'];
    return { kubeconfig, ...(etcdUrl === undefined ? {} : { etcdUrl }) };
  }

  it('answers a program of its own as it answers a call in the process', async () => {
    const argv = ['host-endpoints', 'list', '--all-interfaces'];
    expect(await spawnCtl(argv, { env: datastore.env })).toEqual(await datastore.run(argv));
  });

  it('prepares an upgrade once, and undoes that [up-hostendpoints]', async () => {
    expect(await run('prepare-upgrade')).toMatchObject({ status: 0, stderr: '' });
    const policy = await datastore.store.findResource(
      { kind: 'GlobalNetworkPolicy', name: 'allow-all-upgrade' },
      never,
    );
    expect(policy?.spec).toEqual(TEMPORARY);
    expect((await run('prepare-upgrade')).stdout).toBe('nothing is left to do\n');
    expect((await run('list --all-interfaces')).stdout).toContain(' netplug/host-endpoint-upgrade=,role=gateway\n');
    expect(await run('prepare-upgrade --undo')).toMatchObject({ status: 0, stderr: '' });
    const { resources } = await datastore.store.listResources('GlobalNetworkPolicy', never);
    expect(resources).toEqual([]);
    expect((await run('list')).stdout).not.toContain('upgrade');
  });

  it('migrates step by step to the endpoints that the controllers make [up-autohep]', async () => {
    const first = await run('migrate');
    expect(first.status).toBe(1);
    const [, command] = /^ +\$ (.*)$/m.exec(first.stdout) ?? [];
    expect(command).toBe(type === 'orch' ? 'kubectl label node n1 role=gateway' : undefined);
    if (command !== undefined) await datastore.server?.kubectl(...command.split(' ').slice(1));
    expect((await run('migrate')).status).toBe(1);
    const configuration = { kind: 'ControllersConfiguration', name: 'default' } as const;
    expect((await datastore.store.findResource(configuration, never))?.spec).toEqual({
      controllers: { node: { hostEndpoint: { autoCreate: 'Enabled' } } },
    });
    expect((await run('migrate')).stdout).toContain('wait: HostEndpoint "old" stays');
    await using replica = await launchControllers('one', places());
    await until(
      async () => (await run('migrate')).status === 0,
      () => `the migration is done:\n${replica.log()}`,
    );
    const { resources } = await datastore.store.listResources('HostEndpoint', never);
    expect(resources).toMatchObject([
      {
        metadata: {
          name: 'n1-auto-hep',
          labels: { role: 'gateway', 'netplug/created-by': 'netplug-orch-controllers' },
        },
        spec: { node: 'n1', interfaceName: '*', profiles: ['netplug-default-allow'] },
      },
    ]);
  });
});
