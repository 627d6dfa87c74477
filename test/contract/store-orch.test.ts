import { storeContract } from '../../src/datastore/contract.ts';
import type { StoreFixture, StoreTraits } from '../../src/datastore/contract-bench.ts';
import { blockObjectName } from '../../src/datastore/orch/names.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { collectionOf, homeOf } from '../../src/datastore/orch/resource-objects.ts';
import type { Store } from '../../src/datastore/store.ts';
import { parseEndpointName } from '../../src/model/workload-endpoint.ts';
import type { AnyResource, ResourceKind } from '../../src/model/kinds.ts';
import { objectPath } from '../../src/orch-api/paths.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const ON_THE_ORCHESTRATOR: StoreTraits = { names: 'dns', nodes: 'orchestrator', endpoints: 'on pods' };

storeContract(
  'orch',
  async () => {
    const server = await startOrchApiServer();
    const path = server.kubeconfig;
    return fixtureOn(server, () => openOrchStore({ from: 'file', path }, { pageSize: 2 }));
  },
  ON_THE_ORCHESTRATOR,
);

storeContract(
  'orch, with the rights of the shipped roles,',
  async () => {
    const server = await startOrchApiServer();
    await server.kubectl('create', 'serviceaccount', 'tool', '--namespace=netplug-system');
    const binding = [
      'clusterrolebinding',
      'tool',
      '--clusterrole=netplug-admin',
      '--serviceaccount=netplug-system:tool',
    ];
    await server.kubectl('create', ...binding);
    const [plugin, tool] = [
      await server.kubeconfigFor(await server.tokenFor('netplug-system/netplug-cni')),
      await server.kubeconfigFor(await server.tokenFor('netplug-system/tool')),
    ];
    return fixtureOn(server, () =>
      sharedWork(
        openOrchStore({ from: 'file', path: plugin }, { pageSize: 2 }),
        openOrchStore({ from: 'file', path: tool }, { pageSize: 2 }),
      ),
    );
  },
  ON_THE_ORCHESTRATOR,
);

const READ_BY_PLUGIN: ReadonlySet<ResourceKind> = new Set([
  'IPPool',
  'IPReservation',
  'IPAMConfiguration',
  'Node',
  'ClusterInformation',
]);

/** What the plugin does is done with its rights; what only netplugctl does, with those of its users. */
function sharedWork(plugin: Store, tool: Store): Store {
  const writerOf = ({ kind }: AnyResource): Store => (kind === 'ClusterInformation' ? plugin : tool);
  return {
    readNodeView: async (...args) => plugin.readNodeView(...args),
    watchNode: (...args) => plugin.watchNode(...args),
    watchCluster: (...args) => plugin.watchCluster(...args),
    watchResources: (...args) => tool.watchResources(...args),
    listClaims: async (...args) => plugin.listClaims(...args),
    getBlocks: async (...args) => plugin.getBlocks(...args),
    listBlocks: async (...args) => plugin.listBlocks(...args),
    commit: async (changes, signal) =>
      (changes.some(({ kind }) => kind === 'delete-pool') ? tool : plugin).commit(changes, signal),
    listEndpoints: async (...args) => plugin.listEndpoints(...args),
    listResources: async (...args) => tool.listResources(...args),
    findResource: async (which, signal) => (READ_BY_PLUGIN.has(which.kind) ? plugin : tool).findResource(which, signal),
    createResource: async (...args) => writerOf(args[0]).createResource(...args),
    updateResource: async (...args) => writerOf(args[0]).updateResource(...args),
    deleteResource: async (...args) => tool.deleteResource(...args),
    publishNode: async (...args) => plugin.publishNode(...args),
    reportNetwork: async (...args) => plugin.reportNetwork(...args),
    ping: async (...args) => plugin.ping(...args),
    [Symbol.asyncDispose]: async () => {
      await plugin[Symbol.asyncDispose]();
      await tool[Symbol.asyncDispose]();
    },
  };
}

function fixtureOn(server: OrchApiServer, open: () => Store): StoreFixture {
  return {
    open,
    reset: async () => server.empty(),
    putNamespace: async (name) => server.putNamespace(name),
    putNode: async (name) => server.putNode(name),
    labelNode: async (name, labels) => server.labelNode(name, labels),
    removeNode: async (name) => void (await server.call('DELETE', `/api/v1/nodes/${name}`)),
    podOf: async (endpoint) => server.podOf(endpoint),
    // What somebody with kubectl could do: the schema lets it pass, netplug cannot use it.
    damage: async (which) => {
      const type = 'application/merge-patch+json';
      if ('block' in which) {
        const path = `/apis/netplug.io/v3/ipblocks/${blockObjectName(which.block.value.cidr)}`;
        await server.call('PATCH', path, { type, body: { spec: { free: 'all of them' } } });
      } else if ('endpoint' in which) {
        const { namespace, name } = which.endpoint;
        const pod = parseEndpointName(name)?.workload ?? '';
        const body = { metadata: { annotations: { 'cni.netplug/endpoint.eth0': '{"format":' } } };
        await server.call('PATCH', `/api/v1/namespaces/${namespace}/pods/${pod}`, { type, body });
      } else {
        const path = objectPath(homeOf(which) ?? collectionOf(which.kind), which.name);
        await server.call('PATCH', path, { type, body: { spec: { nodeSelector: 'rack = 7', nets: ['rack 7'] } } });
      }
    },
    [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
  };
}
