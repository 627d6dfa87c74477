import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lockOf, MACHINE, nodeName, nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { takeSlot } from '../../../../test/support/block-edits.ts';
import { podOf } from '../../../../test/support/ctl-cluster.ts';
import { IpamBench } from '../../../../test/support/ipam-bench.ts';
import { until } from '../../../../test/support/until.ts';
import { Channel } from '../../../base/channel.ts';
import { systemClock } from '../../../base/clock.ts';
import { silentLog } from '../../../base/log.ts';
import { systemRandom } from '../../../base/random.ts';
import type { NodeControllerSettings } from '../../../config/controllers-settings.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore, type Operation } from '../../../datastore/memory/memory-store.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { Collection } from '../../../kube/paths.ts';
import type { SharedEvent } from '../../../kube/shared-watches.ts';
import { emptyBlock, heldAddresses } from '../../../model/ip-block.ts';
import { handleOf } from '../../../model/names.ts';
import type { Node } from '../../../model/node.ts';
import { parseCidr } from '../../../net/cidr.ts';
import type { ControllerPorts, RunningController } from '../controller.ts';
import { createControllerMetrics } from '../metrics.ts';
import type { Feed, Observed, ObservedChange } from '../observed.ts';
import { addressController } from './address-controller.ts';

const never = new AbortController().signal;
const PODS: Feed = { side: 'orchestrator', query: { kind: 'pods' } };
const BLOCK = parseCidr('10.0.0.0/29');
const nothing = { find: () => undefined, all: () => [], endpointsOf: () => [] } as unknown as Observed;
const copied = (name: string): Node => {
  const node = nodeOf(name);
  return { ...node, metadata: { ...node.metadata, annotations: { 'netplug/orch-node': '{}' } } };
};

/** Nodes of the orchestrator that are gone, as the controller on etcd meets them. */
describe('the addresses of nodes that are gone', () => {
  let database: MemoryDatabase;
  let nowMs: number;
  let present: Set<string>;
  let locked: boolean;
  let afterRead: (operation: Operation) => void;
  let controller: RunningController;

  beforeEach(async () => {
    database = new MemoryDatabase();
    nowMs = 0;
    present = new Set();
    locked = false;
    afterRead = () => undefined;
    const store = openMemoryStore(database, { pause: async (operation) => Promise.resolve(afterRead(operation)) });
    const get = async (_: unknown, name: string): Promise<object> =>
      Promise.resolve(present.has(name) ? { outcome: 'ok', value: { metadata: { name } } } : { outcome: 'not-found' });
    const ports = {
      clock: { ...systemClock, monotonic: () => nowMs },
      random: systemRandom,
      log: silentLog,
      store,
      api: { get, create: async () => Promise.resolve({ outcome: 'ok' }) },
      metrics: createControllerMetrics(),
      confirmCluster: async () => Promise.resolve(),
      confirmUnlocked: async () => (locked ? Promise.reject(new Error('locked')) : Promise.resolve()),
    } as unknown as ControllerPorts;
    const settings = { leakGraceMs: 1000, nodeRecords: 'own' } as Parameters<typeof addressController>[0];
    controller = addressController(settings).start(ports, nothing);
    await store.createResource(copied('n1'), never);
    const block = emptyBlock(BLOCK, nodeName('n1'));
    await store.commit([{ kind: 'create-block', block, pool: undefined }], never);
  });

  const passes = async (): Promise<void> => {
    for (let pass = 0; pass < 6; pass += 1) {
      nowMs += 250;
      await controller.reconcile({ isFull: true }, never);
    }
  };
  const nodes = async (): Promise<string[]> => {
    const { resources } = await openMemoryStore(database).listResources('Node', never);
    return resources.map(({ metadata }) => metadata.name);
  };

  it('are released with their records, and so is the name of the machine', async () => {
    const store = openMemoryStore(database);
    await store.claimName(nodeName('n1'), { machine: MACHINE, mayReplace: () => false }, never);
    await passes();
    expect(await nodes()).toEqual([]);
    expect((await store.listResources('NodeReport', never)).resources).toEqual([]);
    expect(database.state().blocks.size).toBe(0);
  });

  it('keep the record of a node that is made again under the name meanwhile', async () => {
    afterRead = (operation) => void (operation === 'commit' && present.add('n1'));
    await passes();
    expect(database.state().blocks.size).toBe(0);
    expect(await nodes()).toEqual(['n1']);
  });

  it('keep their records while the datastore is locked', async () => {
    locked = true;
    await expect(passes()).rejects.toThrow('locked');
    expect(await nodes()).toEqual(['n1']);
  });

  it('do not wait for the record of another node that cannot be decoded', async () => {
    const store = openMemoryStore(database);
    await store.createResource(copied('n2'), never);
    database.damage({ kind: 'Node', name: 'n2' });
    const foreign = emptyBlock(parseCidr('10.0.0.8/29'), nodeName('n2'));
    await store.commit([{ kind: 'create-block', block: foreign, pool: undefined }], never);
    await passes();
    expect([...database.state().blocks.values()].map(({ value }) => typeof value !== 'symbol' && value.node)).toEqual([
      'n2',
    ]);
  });

  it.each(['block', 'endpoint'] as const)('keep everything while their %s cannot be decoded', async (what) => {
    const store = openMemoryStore(database);
    const attachment = { network: 'net', containerId: 'c', ifName: 'eth0' };
    const holder = { id: 'a', node: nodeName('n1'), ...attachment, handle: handleOf(attachment) };
    const held = takeSlot(emptyBlock(parseCidr('10.0.0.8/29'), nodeName('n1')), 0, {
      ...holder,
      at: '2026-01-01T00:00:00Z',
      chosenBy: 'node-selector',
    });
    if (what === 'block') {
      await store.commit([{ kind: 'create-block', block: held, pool: undefined }], never);
      database.damage({ block: held.cidr });
    } else database.damage({ endpoint: { node: nodeName('n1'), namespace: 'shop', name: 'web' } });
    await passes();
    expect(await nodes()).toContain('n1');
  });
});

/** A node of the API that is silent from the start, and gets the taint later. */
describe('what pods asked for', () => {
  const nodeWith = (taints: readonly object[]): ApiObject => ({
    metadata: { name: 'n1' },
    spec: { taints },
    status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
  });
  const LOST = nodeWith([{ key: 'node.kubernetes.io/out-of-service' }]);
  let bench: IpamBench;
  let node: ApiObject;
  /** Throws what the API answers to a read of that name. */
  let beforeGet: (name: string) => void;
  /** Node and message of the events. */
  let told: [string, string][];
  let events: Channel<SharedEvent>;
  let controller: RunningController;
  let triggers: number;
  let stop: AbortController;

  beforeEach(async () => {
    bench = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    await bench.assign('c1', { pod: 'db-0', ip: '10.0.0.9' });
    node = nodeWith([]);
    beforeGet = () => undefined;
    told = [];
    events = new Channel<SharedEvent>();
    triggers = 0;
    stop = new AbortController();
    const ports = {
      ...bench.ports(),
      clock: { ...systemClock, sleep: async () => Promise.resolve() },
      api: {
        get: async ({ plural }: Collection, name: string) => {
          beforeGet(name);
          return Promise.resolve(plural === 'nodes' ? { outcome: 'ok', value: node } : { outcome: 'not-found' });
        },
        create: async ({ object }: { object: { involvedObject: { name: string }; message: string } }) => {
          told.push([object.involvedObject.name, object.message]);
          return Promise.resolve({ outcome: 'ok' });
        },
        sharedWatch: () => events,
      },
      metrics: createControllerMetrics(),
      confirmCluster: async () => Promise.resolve(),
    } as unknown as ControllerPorts;
    const settings = { leakGraceMs: 900_000, nodeRecords: "orchestrator's" } as NodeControllerSettings;
    controller = addressController(settings).start(ports, nothing);
    void controller.follow?.(() => (triggers += 1), stop.signal);
    events.push({ kind: 'all', objects: [node], version: '1' });
  });
  afterEach(() => {
    stop.abort();
    events.close();
  });

  const holders = (): string[] =>
    [...bench.database.state().blocks.values()]
      .flatMap(({ value }) => (typeof value === 'symbol' ? [] : heldAddresses(value)))
      .map(({ allocation }) => allocation.containerId);
  const held = (): number => [...bench.database.state().blocks.values()].length;
  const change = (after: ApiObject): void => {
    events.push({ kind: 'changes', changes: [{ before: node, after }], version: '2' });
    node = after;
  };
  const lostFrom = (on: string): ObservedChange => {
    const before = { kind: 'endpoint', query: 0, key: '', version: '', value: podOf('db-0', on, []) } as const;
    return { feed: PODS, id: 'db-0', before, after: undefined };
  };

  it('is looked at when its node goes out of service, and when a pod of that node is gone', async () => {
    expect(controller.note([lostFrom('n1')])).toBe(false);
    await controller.reconcile({ isFull: false }, never);
    expect([triggers, held()]).toEqual([0, 1]);
    change(LOST);
    await until(() => triggers === 1, 'it is noticed');
    await controller.reconcile({ isFull: false }, never);
    expect(held()).toBe(0);
    expect(controller.note([lostFrom('n2')])).toBe(false);
    expect(controller.note([lostFrom('n1')])).toBe(true);
  });

  it('is looked at again after a failure', async () => {
    change(LOST);
    await until(() => triggers === 1, 'it is noticed');
    await bench.ports().store.createResource(lockOf('locked'), never);
    await expect(controller.reconcile({ isFull: false }, never)).rejects.toMatchObject({ code: 'store/locked' });
    await bench.ports().store.deleteResource({ kind: 'ClusterInformation', name: 'default' }, never);
    await controller.reconcile({ isFull: false }, never);
    expect(held()).toBe(0);
  });

  it('is released of one node although others cannot be read, which are looked at again', async () => {
    const bad = ['b1', 'b2', 'b3', 'b4', 'b5'];
    for (const [index, on] of bad.entries())
      await bench.assign(on, { node: on, pod: `db-${on}`, ip: `10.0.0.${String(10 + index)}` });
    const lost = [...bad, 'n1'].map((name) => ({ ...LOST, metadata: { name } }));
    events.push({ kind: 'changes', changes: lost.map((after) => ({ before: undefined, after })), version: '2' });
    node = LOST;
    await until(() => triggers === lost.length, 'all are noticed');
    let unreadable = bad;
    beforeGet = (name) => {
      if (unreadable.includes(name)) throw new Error(`${name} cannot be read`);
    };
    await expect(controller.reconcile({ isFull: false }, never)).rejects.toThrow('cannot be read');
    expect(holders()).toEqual(bad);
    unreadable = ['b2'];
    await expect(controller.reconcile({ isFull: false }, never)).rejects.toThrow('b2 cannot be read');
    expect(holders()).toEqual(['b2']);
    unreadable = [];
    await controller.reconcile({ isFull: false }, never);
    expect([holders(), controller.note([])]).toEqual([[], false]);
  });

  it('is reported in a full run although another node cannot be read', async () => {
    await bench.assign('b1', { node: 'b1', pod: 'db-1', ip: '10.0.0.8' });
    change(LOST);
    // As it is for the second time, directly before the write.
    let asked = 0;
    beforeGet = (name) => {
      if (name === 'b1' && (asked += 1) === 2) throw new Error('b1 cannot be read');
    };
    await expect(controller.reconcile({ isFull: true }, never)).rejects.toThrow('b1 cannot be read');
    expect([holders(), told]).toEqual([['b1'], [['n1', expect.stringContaining('10.0.0.9 were released')]]]);
  });

  it('is released at once by a leader that begins', async () => {
    change(LOST);
    await controller.reconcile({ isFull: true }, never);
    expect(held()).toBe(0);
  });
});
