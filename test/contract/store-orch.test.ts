import { storeContract } from './suites/datastore/store.ts';
import type { StoreFixture, StoreTraits } from './suites/datastore/bench.ts';
import { blockObjectName } from '../../src/datastore/orch/names.ts';
import { endpointObjectName, ENDPOINTS } from '../../src/datastore/orch/endpoint-objects.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { collectionOf, collectionIn } from '../../src/datastore/orch/resource-objects.ts';
import type { Store } from '../../src/datastore/store.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { objectPath } from '../../src/kube/paths.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const ON_THE_ORCHESTRATOR: StoreTraits = { names: 'dns', nodes: 'orchestrator', resumes: true };

// With the rights of the shipped roles alone. The plugin assigns and releases by itself when there is no agent, which then
// follows the blocks of its node alone; an agent that serves routes as well follows them with those of all nodes.
for (const program of ['plugin', 'agent'] as const) {
  const isAgent = program === 'agent';
  const watchedBlocks = isAgent ? 'all-metadata' : 'own';
  storeContract(
    `orch, with the rights of the ${program},`,
    async () => {
      const server = await startOrchApiServer();
      const paths = [program, 'agent', 'admin tool', 'controllers'] as const;
      const [worker, agent, tool, controllers] = await Promise.all(
        paths.map(async (caller) => server.callerConfig(caller)),
      );
      const open = (path = ''): Store => openOrchStore({ from: 'file', path }, { pageSize: 2, watchedBlocks });
      return fixtureOn(server, () => {
        // An agent follows what it writes itself.
        const follower = open(agent);
        return sharedWork({
          worker: isAgent ? follower : open(worker),
          agent: follower,
          tool: open(tool),
          controllers: open(controllers),
        });
      });
    },
    ON_THE_ORCHESTRATOR,
  );
}

interface Workers {
  /** Assigns and releases addresses. */
  readonly worker: Store;
  /** Follows the node and the cluster, and tells about its node. */
  readonly agent: Store;
  /** netplugctl in the hands of those who administer netplug. */
  readonly tool: Store;
  /** Marks pools. */
  readonly controllers: Store;
}

/** Each does its own work with its own rights. */
function sharedWork({ worker, agent, tool, controllers }: Workers): Store {
  const writerOf = ({ kind }: AnyResource): Store => (kind === 'ClusterInformation' ? agent : tool);
  return {
    readNodeView: async (...args) => worker.readNodeView(...args),
    // The tool alone may watch every kind.
    follow: (queries, options) => {
      const isOfTool = queries.length === 1 && queries[0]?.kind === 'resources';
      return (isOfTool ? tool : agent).follow(queries, options);
    },
    listClaims: async (...args) => worker.listClaims(...args),
    getBlocks: async (...args) => worker.getBlocks(...args),
    listBlocks: async (...args) => tool.listBlocks(...args),
    commit: async (changes, signal) =>
      (changes.some(({ kind }) => kind === 'delete-pool') ? tool : worker).commit(changes, signal),
    // Tools alone ask for those of all nodes.
    listEndpoints: async (node, signal) => (node === undefined ? tool : worker).listEndpoints(node, signal),
    listResources: async (...args) => tool.listResources(...args),
    findResource: async (which, signal) =>
      (which.kind === 'ClusterInformation' ? worker : tool).findResource(which, signal),
    createResource: async (...args) => writerOf(args[0]).createResource(...args),
    updateResource: async (...args) => writerOf(args[0]).updateResource(...args),
    deleteResource: async (...args) => tool.deleteResource(...args),
    setPoolStatus: async (...args) => controllers.setPoolStatus(...args),
    publishNode: async (...args) => agent.publishNode(...args),
    claimName: async (...args) => agent.claimName(...args),
    publishReport: async (...args) => agent.publishReport(...args),
    reportConditions: async (...args) => agent.reportConditions(...args),
    isOlder: (...args) => worker.isOlder(...args),
    ping: async (...args) => worker.ping(...args),
    servers: async (...args) => worker.servers(...args),
    [Symbol.asyncDispose]: async () => {
      for (const store of new Set([worker, agent, tool, controllers])) await store[Symbol.asyncDispose]();
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
    // What a user of kubectl could write: the schema lets it pass, netplug cannot use it.
    damage: async (which) => {
      const type = 'application/merge-patch+json';
      if ('block' in which) {
        const path = `/apis/netplug.io/v3/ipblocks/${blockObjectName(which.block.value.cidr)}`;
        await server.call('PATCH', path, { type, body: { spec: { free: 'all of them' } } });
      } else if ('endpoint' in which) {
        const path = objectPath(ENDPOINTS, endpointObjectName(which.endpoint));
        await server.call('PATCH', path, { type, body: { spec: { profiles: 'all of them' } } });
      } else {
        const path = objectPath(collectionIn(which) ?? collectionOf(which.kind), which.name);
        await server.call('PATCH', path, { type, body: { spec: { nodeSelector: 'rack = 7', nets: ['rack 7'] } } });
      }
    },
    [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
  };
}
