import { type Clock, virtualClock } from '../../src/base/clock.ts';
import { type Log, silentLog } from '../../src/base/log.ts';
import { seededRandom } from '../../src/base/random.ts';
import { type AttachmentRecords, memoryRecords } from '../../src/cni/attachment-records.ts';
import { type KeptNotes, memoryKeptNotes } from '../../src/cni/kept-notes.ts';
import type { UsedRange } from '../../src/model/used-range.ts';
import type { Program } from '../../src/cni/call-record.ts';
import type { ExecDelegate } from '../../src/cni/delegate.ts';
import { decodeNetconf } from '../../src/config/decode.ts';
import { noIsolation, type PodIsolation } from '../../src/cni/pod-isolation.ts';
import { runPlugin, type CallOutcome, type PluginDependencies } from '../../src/cni/run-plugin.ts';
import { MemoryKernel } from './memory/memory-kernel.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import type { PodFacts } from '../../src/model/pod.ts';
import { nodeOf, poolOf } from './fixtures.ts';
import { memoryOrch } from './memory-orch.ts';

const never = new AbortController().signal;
export const NETNS = '/run/netns/pod';

/** Milliseconds that the parts of a call take on the node's clock. */
export interface Delays {
  readonly input: number;
  readonly setup: number;
  readonly gate: number;
  readonly store: number;
}

const NO_AGENT = noIsolation('the node has no agent');
const AT_ONCE: Delays = { input: 0, setup: 0, gate: 0, store: 0 };

export interface MemoryNode {
  readonly clock: Clock;
  readonly kernel: MemoryKernel;
  readonly attachments: AttachmentRecords;
  readonly keptNotes: KeptNotes;
  readonly database: MemoryDatabase;
  /** How long the datastore has taken so far. */
  storeMs(): number;
  call(
    verb: string,
    more?: {
      conf?: object;
      env?: Record<string, string>;
      program?: Program;
      pods?: readonly PodFacts[];
      isolation?: PodIsolation;
      /** The key of the node in this call. */
      linkKey?: string;
      log?: Log;
      /** Returns the datastore of this call, given that of the node. */
      store?: (store: Store) => Store;
      ownRanges?: readonly UsedRange[];
      /** The plugins in the configuration list of the network, and how they are called. */
      plugins?: { readonly listed: readonly string[]; readonly disablesGc?: boolean; readonly exec: ExecDelegate };
    },
  ): Promise<CallOutcome>;
}

/** A node with one pool of addresses, whose kernel and datastore live in memory. */
export async function memoryNode(delays: Delays = AT_ONCE, clock: Clock = virtualClock()): Promise<MemoryNode> {
  const database = new MemoryDatabase();
  const kernel = new MemoryKernel();
  const random = seededRandom(1);
  kernel.addNetns(NETNS);
  await using seed = openMemoryStore(database);
  await seed.createResource(poolOf('blue', '10.65.0.0/16'), never);
  await seed.createResource(nodeOf('node-a'), never);
  const attachments = memoryRecords();
  const keptNotes = memoryKeptNotes();
  let storeMs = 0;
  const pause = async (): Promise<void> => {
    if (delays.store === 0) return;
    storeMs += delays.store;
    await clock.sleep(delays.store, never);
  };
  const setUp = <T>(part: T): T => {
    if (delays.setup > 0) void clock.sleep(delays.setup, never);
    return part;
  };
  return {
    clock,
    kernel,
    attachments,
    keptNotes,
    database,
    storeMs: () => storeMs,
    call: async (verb, more = {}) => {
      const {
        conf = {},
        env = {},
        program = 'netplug',
        pods = [],
        isolation = NO_AGENT,
        linkKey = 'key',
        log = silentLog,
        store = (own) => own,
        ownRanges = [],
        plugins,
      } = more;
      const stdin = JSON.stringify({ cniVersion: '1.1.0', name: 'net', type: program, ...defaults(program), ...conf });
      const dependencies: PluginDependencies = {
        env: { ...envOf(verb), ...env },
        hostname: 'node-a',
        clock,
        random,
        probeGate: async () => {
          await clock.sleep(delays.gate, never);
          return 200;
        },
        interrupted: never,
        readStdin: async () => {
          await clock.sleep(delays.input, never);
          return stdin;
        },
        readRegisteredName: () => undefined,
        readOfferedMtu: () => undefined,
        bandwidthBurstMs: 100,
        ownRanges: () => ownRanges,
        openStore: () => setUp(store(openMemoryStore(database, { pause }))),
        openOrch: () => memoryOrch(pods),
        readInstalledList: () =>
          plugins === undefined ? undefined : { plugins: plugins.listed, disablesGc: plugins.disablesGc === true },
        attachments,
        keptNotes,
        linkKey: async () => Promise.resolve(linkKey),
        isolation,
        openKernel: () => setUp(kernel),
        openLog: () => log,
        decodeNetconf: (raw, { as }) => decodeNetconf(raw, as),
        recover: async () => undefined,
        execDelegateFor: () =>
          plugins?.exec ?? (async () => Promise.reject(new Error('this node has no other plugins'))),
      };
      return runPlugin(program, dependencies);
    },
  };
}

function defaults(program: Program): object {
  const common = { ipam: { type: 'netplug-ipam' }, kv_endpoints: 'http://127.0.0.1:1' };
  return program === 'netplug' ? { ...common, datastore_type: 'kvv3' } : common;
}

function envOf(verb: string): Record<string, string> {
  return {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: 'c1',
    CNI_IFNAME: 'eth0',
    CNI_NETNS: NETNS,
    CNI_PATH: '/opt/cni/bin',
    CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web',
  };
}
