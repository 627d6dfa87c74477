import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { queryObjects, startupSnapshot } from 'node:v8';
import { type Clock, systemClock } from '../base/clock.ts';
import { seededRandom } from '../base/random.ts';
import { memoryRecords } from '../cni/attachment-records.ts';
import { noIsolation } from '../cni/pod-isolation.ts';
import { runPlugin } from '../cni/run-plugin.ts';
import { decodeNetconf } from '../config/decode.ts';
import { MemoryKernel } from '../dataplane/memory/memory-kernel.ts';
import { openLog } from './open-log.ts';
import { openOrchIn } from './open-orch.ts';
import { openPluginStoreIn } from './open-store.ts';
import { rehearsalEtcd } from './rehearsal-etcd.ts';

/** What the finalizers of one round release is due in the next. */
const ROUNDS = 3;
const NETNS = '/run/netns/rehearsal';
/** In the network namespace that the snapshot is built in; the port is in the snapshot, which is to be the same every time. */
const PORT = 40_000;
/** Times are in the snapshot as well. */
const CLOCK: Clock = { ...systemClock, now: () => 0, monotonic: () => 0 };
const POOL = { cidr: '10.0.0.0/16', blockSize: 26, nodeSelector: 'all()', allowedUses: ['Workload'] };

/**
 * Serves calls with an etcd and a kernel in memory while the snapshot is built, so that the functions of ADD and DEL are
 * in it compiled. Without it, compiling them takes a seventh of the CPU of each call. Reads no random bytes, and starts no
 * timer: the timers of Node in the snapshot would wait for the clock of the process that has built it, and new ones of the
 * same duration with them.
 */
export async function rehearse(): Promise<void> {
  const { setTimeout, setInterval } = globalThis;
  Object.assign(globalThis, { setTimeout: inertTimer, setInterval: inertTimer });
  try {
    await serveCalls();
  } finally {
    Object.assign(globalThis, { setTimeout, setInterval });
  }
  await finalize();
}

/** Returns a timer that never fires. */
function inertTimer(): object {
  const timer = { ref: () => timer, unref: () => timer };
  return timer;
}

async function serveCalls(): Promise<void> {
  const records = new Map([
    ['/netplug/v3/resources/ippools/pods', JSON.stringify(resource('IPPool', { name: 'pods' }, POOL))],
    ['/netplug/v3/resources/nodes/node-a', JSON.stringify(resource('Node', { name: 'node-a', labels: {} }, {}))],
  ]);
  const server = rehearsalEtcd(records).listen(startupSnapshot.isBuildingSnapshot() ? PORT : 0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  const kernel = new MemoryKernel();
  kernel.addNetns(NETNS);
  const attachments = memoryRecords();
  let prevResult: unknown;
  for (const command of ['VERSION', 'STATUS', 'ADD', 'CHECK', 'DEL', 'DEL']) {
    const outcome = await runPlugin('netplug', {
      env: callOf(command),
      hostname: 'node-a',
      clock: CLOCK,
      random: seededRandom(1),
      probeGate: async () => Promise.resolve(200),
      interrupted: new AbortController().signal,
      readStdin: async () => Promise.resolve(JSON.stringify({ ...netconfOf(address.port), prevResult })),
      decodeNetconf: (raw, { as }) => decodeNetconf(raw, as),
      readRegisteredName: () => undefined,
      readOfferedMtu: () => undefined,
      openStore: openPluginStoreIn({}),
      openOrch: openOrchIn({}),
      readPluginList: () => undefined,
      attachments,
      isolation: noIsolation('nothing enforces policies'),
      openKernel: () => kernel,
      openLog: (settings) => openLog(settings, () => undefined),
      recover: async () => Promise.resolve(),
      execDelegateFor: () => async () => Promise.reject(new Error('there are no other plugins')),
    });
    if (command === 'ADD') prevResult = JSON.parse(outcome.stdout);
    if (outcome.status !== 0) throw new Error(`the rehearsal of ${command} failed: ${outcome.stdout}`);
  }
  server.close();
  await once(server, 'close');
}

/** Collects garbage and waits for its finalizers: V8 makes no snapshot while some are due. */
async function finalize(): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) {
    queryObjects(AbortSignal);
    await setImmediate();
  }
}

function resource(kind: string, metadata: object, spec: object): object {
  return { apiVersion: 'netplug.io/v3', kind, metadata, spec };
}

function callOf(command: string): Readonly<Record<string, string>> {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: 'rehearsal',
    CNI_IFNAME: 'eth0',
    CNI_NETNS: NETNS,
    CNI_PATH: '/opt/cni/bin',
    CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=rehearsal;K8S_POD_UID=rehearsal',
  };
}

function netconfOf(port: number): object {
  return {
    cniVersion: '1.1.0',
    name: 'rehearsal',
    type: 'netplug',
    nodename: 'node-a',
    datastore_type: 'kvv3',
    kv_endpoints: `http://127.0.0.1:${String(port)}`,
    ipam: { type: 'netplug-ipam' },
  };
}
