import { updateTo } from '../../../support/block-edits.ts';
import { expect } from 'vitest';
import { NetplugError } from '../../../../src/base/errors.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../../../src/model/ip-block.ts';
import type { IpPool } from '../../../../src/model/ip-pool.ts';
import { handleOf, type NodeName } from '../../../../src/model/names.ts';
import type { Node } from '../../../../src/model/node.ts';
import type { ResourceId } from '../../../../src/model/resource-id.ts';
import { API_VERSION } from '../../../../src/model/resource.ts';
import type { EndpointId, WorkloadEndpoint } from '../../../../src/model/workload-endpoint.ts';
import { type Cidr, parseCidr } from '../../../../src/net/cidr.ts';
import type { Change, Stored } from '../../../../src/datastore/allocation-store.ts';
import type { Store } from '../../../../src/datastore/store.ts';

/** What a datastore can hold, where they differ: the suite proves the same of each in the terms it knows. */
export interface StoreTraits {
  /** Names of resources and nodes: any text, or only what the orchestrator's API takes. */
  readonly names: 'any' | 'dns';
  /** Who writes Node resources: the store, or the orchestrator (`putNode` then stands in for it). */
  readonly nodes: 'store' | 'orchestrator';
  /** Whether a stream can resume after an event of another one, or always begins with a snapshot. */
  readonly resumes: boolean;
}
export const PLAIN: StoreTraits = { names: 'any', nodes: 'store', resumes: true };

/** One empty datastore per test, seen through as many stores as there are processes. */
export interface StoreFixture extends AsyncDisposable {
  /** Forgets everything stored so far. */
  reset(): Promise<void>;
  /** One more handle on the same data, which fetches long listings in pages of two. */
  open(): Store;
  /** Writes garbage over a record. */
  damage(which: { readonly block: Stored<IpBlock> } | { readonly endpoint: EndpointId } | ResourceId): Promise<void>;
  /** Makes a namespace where there are none without. */
  putNamespace?(name: string): Promise<void>;
  /** Makes the node where the orchestrator owns nodes. */
  putNode?(name: string): Promise<void>;
  /** Labels it there. */
  labelNode?(name: string, labels: Readonly<Record<string, string>>): Promise<void>;
  /** Removes it there. */
  removeNode?(name: string): Promise<void>;
}

export const never = new AbortController().signal;
export const at = (text: string): Cidr => parseCidr(text);

export const pool = (name: string, cidr = '10.0.0.0/16'): IpPool => ({
  apiVersion: API_VERSION,
  kind: 'IPPool',
  metadata: { name },
  spec: {
    cidr,
    ipipMode: 'Never',
    vxlanMode: 'Never',
    natOutgoing: false,
    disabled: false,
    disableBGPExport: false,
    blockSize: 26,
    nodeSelector: 'all()',
    allowedUses: ['Workload'],
  },
});

export const holder = (id: string, node: NodeName): Allocation => {
  const attachment = { network: 'my net/ü', containerId: id, ifName: 'eth0' };
  return { id, node, ...attachment, handle: handleOf(attachment), at: '2026-01-01T00:00:00Z', chosenBy: 'request' };
};

export const cniEndpoint = (
  name: string,
  more: { node: string; namespace?: string; mac?: string },
): WorkloadEndpoint => ({
  apiVersion: API_VERSION,
  kind: 'WorkloadEndpoint',
  metadata: { name, namespace: more.namespace ?? 'default' },
  spec: {
    orchestrator: 'cni',
    node: more.node,
    network: 'my net/ü',
    containerID: 'c1',
    endpoint: 'eth0',
    interfaceName: 'npl0',
    mac: more.mac ?? '0a:00:00:00:00:01',
    ipNetworks: ['10.0.0.1/32'],
    profiles: [],
    ipam: 'netplug-ipam',
  },
});

export async function expectCode(code: NetplugError['code'], promise: Promise<unknown>): Promise<NetplugError> {
  const cause: unknown = await promise.then(
    () => 'no error',
    (error: unknown) => error,
  );
  expect(cause).toMatchObject({ code });
  if (!(cause instanceof NetplugError)) throw new TypeError('not a NetplugError');
  return cause;
}

/** Steps that tests of any datastore take. */
export interface Bench {
  /** Three nodes, with names as odd as the datastore takes them. */
  readonly nodes: readonly [NodeName, NodeName, NodeName];
  readonly storedPool: (name?: string) => Promise<Stored<IpPool>>;
  readonly commit: (...changes: Change[]) => Promise<void>;
  readonly endpoint: (name: string, more?: { node?: string; namespace?: string; mac?: string }) => WorkloadEndpoint;
  readonly block: (cidr: string) => Promise<Stored<IpBlock>>;
  readonly createdBlock: (cidr: string, node?: NodeName, from?: Stored<IpPool>) => Promise<Stored<IpBlock>>;
  /** Makes a node as the owner of nodes does; the next two likewise. */
  readonly makeNode: (name: NodeName) => Promise<void>;
  readonly labelNode: (name: NodeName, labels: Readonly<Record<string, string>>) => Promise<void>;
  readonly removeNode: (name: NodeName) => Promise<void>;
  readonly update: (before: Stored<IpBlock>, after: IpBlock) => Change;
}

/** `parts` is asked when a test runs: before, there is no datastore. */
export function benchOf(parts: () => { store: Store; fixture: StoreFixture }, { names }: StoreTraits): Bench {
  // A decoder gives the brand elsewhere; here any text stands for a node.
  const nodes = (
    names === 'dns' ? ['node-a', `b.${'long.'.repeat(15)}node`, 'node-c'] : ['node-a', 'node/b %', 'nœud-c']
  ) as [NodeName, NodeName, NodeName];
  const [a] = nodes;
  const storedPool = async (poolName = 'blue'): Promise<Stored<IpPool>> => {
    await parts().store.createResource(pool(poolName), never);
    const { pools } = await parts().store.readNodeView(a, undefined, never);
    const found = pools.find(({ value }) => value.metadata.name === poolName);
    if (found === undefined) throw new Error('the pool was not stored');
    return found;
  };
  const commit = async (...changes: Change[]): Promise<void> => {
    expect(await parts().store.commit(changes, never)).toBe('committed');
  };
  const endpoint: Bench['endpoint'] = (text, more = {}) => cniEndpoint(text, { node: a, ...more });
  const block = async (cidr: string): Promise<Stored<IpBlock>> => {
    const [found] = await parts().store.getBlocks([at(cidr)], never);
    if (found === undefined) throw new Error(`no block ${cidr}`);
    return found;
  };
  const createdBlock = async (cidr: string, node: NodeName = a, from?: Stored<IpPool>): Promise<Stored<IpBlock>> => {
    await commit({ kind: 'create-block', block: emptyBlock(at(cidr), node), pool: from ?? (await storedPool()) });
    return block(cidr);
  };
  const update = (before: Stored<IpBlock>, after: IpBlock): Change => updateTo(before, after);
  const plainNode = (metadata: Node['metadata']): Node => ({
    apiVersion: API_VERSION,
    kind: 'Node',
    metadata,
    spec: {},
  });
  const makeNode = async (name: NodeName): Promise<void> => {
    const { store, fixture } = parts();
    if (fixture.putNode === undefined) await store.createResource(plainNode({ name }), never);
    else await fixture.putNode(name);
  };
  const labelNode = async (name: NodeName, labels: Readonly<Record<string, string>>): Promise<void> => {
    const { store, fixture } = parts();
    if (fixture.labelNode === undefined) await store.updateResource(plainNode({ name, labels }), never);
    else await fixture.labelNode(name, labels);
  };
  const removeNode = async (name: NodeName): Promise<void> => {
    const { store, fixture } = parts();
    if (fixture.removeNode === undefined) await store.deleteResource({ kind: 'Node', name }, never);
    else await fixture.removeNode(name);
  };
  return { nodes, storedPool, commit, endpoint, block, createdBlock, makeNode, labelNode, removeNode, update };
}
