import { join } from 'node:path';
import { virtualClock } from '../../src/base/clock.ts';
import { seededRandom } from '../../src/base/random.ts';
import { memoryPlanRecords } from '../../src/plans/plan-records.ts';
import { main } from '../../src/apps/ctl/main.ts';
import type { CtlPorts } from '../../src/apps/ctl/ports.ts';

const NOTHING_SPECIAL = {
  server: 'memory',
  alarms: [],
  missingKinds: [],
  differingKinds: [],
  unpublishedNodes: [],
  missingRights: [],
};

/** What a call of the tool gave. */
export interface Ran {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

export interface CtlWorld extends Partial<CtlPorts> {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Interrupts the call, as a person does, as soon as it says so. */
  readonly until?: RegExp | undefined;
  /** Whether a person answers on standard input. */
  readonly isTty?: boolean;
}

/** A machine with every place of netplug below the folder, so that none of the machine that runs the test is used. */
export function machineIn(folder: string): CtlPorts['machine'] {
  return {
    executable: undefined,
    stateDir: join(folder, 'state'),
    runDir: join(folder, 'run'),
    agentLock: join(folder, 'state/agent.lock'),
    socketPath: join(folder, 'run/cni.sock'),
    logDir: join(folder, 'log'),
    resultsDir: join(folder, 'results'),
    serviceAccountDir: join(folder, 'account'),
  };
}

function missing(): never {
  throw new Error('this command needs neither datastore nor kernel');
}

/** A node without a configuration of its runtime. */
export const NO_PLUGIN: CtlPorts['plugin'] = {
  openOrch: missing,
  readInstalledList: () => undefined,
  readOfferedMtu: () => undefined,
  linkKey: async () => Promise.resolve('key'),
  ownRanges: () => [],
  bandwidthBurstMs: 100,
  confDir: '/nowhere',
  binDir: '/nowhere',
};

/** A node on which no BIRD runs. */
const NO_BIRD: CtlPorts['bird'] = {
  status: async () => Promise.resolve(undefined),
  stop: async () => Promise.resolve(false),
  findProcess: async () => Promise.resolve(undefined),
};

/** Names a datastore; tests open one of their own in its place. */
const SOME_ETCD = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };

/** Calls the management tool in this process, in a world that has only what the test gives it. */
export async function callCtl(
  argv: readonly string[],
  { env = SOME_ETCD, stdin = '', until, isTty = false, ...given }: CtlWorld,
): Promise<Ran> {
  let [out, err] = ['', ''];
  const interrupt = new AbortController();
  const ports: CtlPorts = {
    clock: virtualClock(Date.parse('2026-01-02T00:00:00Z')),
    random: seededRandom(1),
    hostname: 'node-a',
    readRegisteredName: () => undefined,
    machine: machineIn('/nowhere'),
    plugin: NO_PLUGIN,
    interrupted: interrupt.signal,
    askAgent: async () => Promise.reject(new Error('no agent listens')),
    planRecords: memoryPlanRecords(),
    openStore: missing,
    openInspector: () => ({
      inspect: async () => Promise.resolve(NOTHING_SPECIAL),
      [Symbol.asyncDispose]: async () => Promise.resolve(),
    }),
    host: { uid: 1000, procDir: '/proc' },
    bootedAtMs: () => 0,
    openApi: missing,
    openLease: missing,
    listEnforcedPolicies: missing,
    openKernel: missing,
    openHostNetwork: missing,
    openChained: missing,
    openFilter: missing,
    openPacketProbe: missing,
    openUnfragmented: missing,
    openPacketTables: missing,
    bird: NO_BIRD,
    tryLockFile: missing,
    sendSignal: missing,
    ...given,
  };
  const io = {
    stdin: async () => Promise.resolve(stdin),
    stdout: (text: string) => (out += text),
    stderr: (text: string) => {
      err += text;
      if (until?.test(err) === true) interrupt.abort();
    },
    isTty,
    isErrTty: false,
    screen: { columns: 100, mayColour: false },
  };
  const status = await main(ports, { argv, env, io });
  return { status, out, err };
}
