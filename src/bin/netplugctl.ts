import { hostname } from 'node:os';
import { join } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { text } from 'node:stream/consumers';
import { ownValue } from '../base/own-value.ts';
import { askAgent } from '../apps/agent/ask-agent.ts';
import { filePlanRecords, memoryPlanRecords, type PlanRecords } from '../plans/plan-records.ts';
import { errnoOf } from '../base/errors.ts';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { readLinkKey } from '../cni/link-key.ts';
import { main } from '../apps/ctl/main.ts';
import type { AgentQuestion } from '../install/host/host-ports.ts';
import type { CtlPorts } from '../apps/ctl/ports.ts';
import type { Screen } from '../apps/ctl/screen.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { linuxChainedState } from '../dataplane/linux/linux-chained-state.ts';
import { linuxHostNetwork } from '../dataplane/linux/host-network.ts';
import { linuxPacketTables } from '../dataplane/linux/linux-packet-tables.ts';
import { openUnfragmentedSocket } from '../dataplane/linux/unfragmented-socket.ts';
import { linuxPacketProbe } from '../dataplane/linux/linux-packet-probe.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import { NftPolicyFilter } from '../dataplane/linux/nft-policy-filter.ts';
import type { Datastore, OrchSettings } from '../config/connection.ts';
import { openKvInspector } from '../datastore/kv/kv-inspector.ts';
import { openOrchInspector } from '../datastore/orch/orch-inspector.ts';
import { declaredAccess } from '../install/cluster/declared-access.ts';
import { listEnforcedPolicies } from '../kube/admission-policies.ts';
import { ApiLease } from '../datastore/orch/api-lease.ts';
import { OrchApi, type OrchApiOptions } from '../kube/orch-api.ts';
import type { LeaseOptions } from '../runtime/leader-lease.ts';
import { readVariable } from '../config/environment.ts';
import { interruptions } from './interruptions.ts';
import { birdIn } from './bird-in.ts';
import { bootedAtMs } from './booted-at.ts';
import { machineOf } from './machine.ts';
import { accessOf, openOrchIn } from './open-orch.ts';
import { openStoreIn } from './open-store.ts';
import { readInstalledList } from './read-installed-list.ts';
import { ownRangesOfHost } from './own-ranges.ts';
import { readConfDir, readOfferedMtu, readRegisteredName, stateDir } from './registration.ts';

/** Names of the executable under which kubectl runs the tool as its plugin. */
const OTHER_NAMES: Readonly<Record<string, { program: string; before: readonly string[] }>> = {
  'kubectl-netplug': { program: 'kubectl netplug', before: [] },
  // kubectl runs this program for shell completion.
  'kubectl_complete-netplug': { program: 'kubectl netplug', before: ['complete', '--'] },
};

/** Returns the real dependencies of one command, as the variables say; nothing is opened before it is asked for. */
export function ctlPortsIn(env: NodeJS.ProcessEnv, interrupted: AbortSignal): CtlPorts {
  return {
    clock: systemClock,
    random: systemRandom,
    hostname: hostname(),
    readRegisteredName: () => readRegisteredName(env),
    machine: machineOf(env),
    plugin: {
      openOrch: openOrchIn(env),
      readInstalledList: (network) => readInstalledList(readConfDir(env), network),
      readOfferedMtu: () => readOfferedMtu(env),
      linkKey: async () => readLinkKey(stateDir(env)),
      ownRanges: ownRangesOfHost(),
      bandwidthBurstMs: readVariable(env, 'NETPLUG_BANDWIDTH_BURST_MS'),
      confDir: readVariable(env, 'NETPLUG_CNI_CONF_DIR'),
      binDir: readVariable(env, 'NETPLUG_CNI_BIN_DIR'),
    },
    interrupted,
    host: { uid: process.getuid?.() ?? -1, procDir: '/proc' },
    bootedAtMs,
    openStore: openStoreIn(env, { manager: 'netplugctl' }),
    openInspector: (datastore: Datastore) =>
      datastore.type === 'kvv3'
        ? openKvInspector(datastore.connection)
        : openOrchInspector(accessOf(datastore.orch, env), { env, declared: declaredAccess() }),
    openLease: (api: OrchApi, options: LeaseOptions) => new ApiLease(api, systemClock, options),
    openApi: (settings: OrchSettings, fence?: OrchApiOptions['fence']) =>
      new OrchApi(accessOf(settings, env), { env, manager: 'netplugctl', ...(fence === undefined ? {} : { fence }) }),
    listEnforcedPolicies: async (settings: OrchSettings, signal: AbortSignal) => {
      await using api = new OrchApi(accessOf(settings, env), { env });
      return await listEnforcedPolicies(api, signal);
    },
    askAgent: askForText,
    openKernel: () => linuxKernel({ allowOwnNetns: true }),
    openHostNetwork: () => linuxHostNetwork({ recordFolder: stateDir(env) }),
    openChained: () => linuxChainedState(),
    openFilter: () => NftPolicyFilter.open(),
    openPacketProbe: () => linuxPacketProbe(),
    openUnfragmented: openUnfragmentedSocket,
    openPacketTables: () => linuxPacketTables(),
    bird: birdIn(env),
    tryLockFile,
    planRecords: planRecordsIn(env),
    sendSignal,
  };
}

/** Runs one command of netplugctl with the real dependencies. */
export async function runCtl(name: string): Promise<void> {
  const { env } = process;
  for (const stream of [process.stdout, process.stderr]) stream.on('error', ignoreClosedPipe);
  const ports = ctlPortsIn(env, interruptions());
  const other = ownValue(OTHER_NAMES, name);
  process.exitCode = await main(ports, {
    ...(other === undefined ? {} : { program: other.program }),
    argv: [...(other?.before ?? []), ...process.argv.slice(2)],
    env,
    io: {
      stdin: async (signal) => text(addAbortSignal(signal, process.stdin)),
      stdout: (words) => process.stdout.write(words),
      stderr: (words) => process.stderr.write(words),
      isTty: process.stdin.isTTY,
      isErrTty: process.stderr.isTTY,
      screen: screenOf(env),
    },
  });
}

async function askForText(socket: string, { kind, text: stdin }: AgentQuestion, signal: AbortSignal): Promise<string> {
  const { status, stdout, stderr } = await askAgent(socket, { kind, stdin }, signal);
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

function sendSignal(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch (cause) {
    if (errnoOf(cause) !== 'ESRCH') throw cause;
  }
}

/** Returns the records of plans: in the state folder for root, in the home folder for another user. */
function planRecordsIn(env: NodeJS.ProcessEnv): PlanRecords {
  if (process.getuid?.() === 0) return filePlanRecords(join(stateDir(env), 'plans'));
  const { HOME: home = '', XDG_STATE_HOME: state = '' } = env;
  if (home === '' && state === '') return memoryPlanRecords();
  return filePlanRecords(join(state === '' ? join(home, '.local/state') : state, 'netplug/plans'));
}

function screenOf(env: NodeJS.ProcessEnv): Screen {
  const { isTTY, columns } = process.stdout;
  return { columns: isTTY ? columns : 100, mayColour: isTTY && !readVariable(env, 'NO_COLOR') };
}

/** Ignores a pipe that the reader has closed, such as `| head`. */
function ignoreClosedPipe(cause: Error): void {
  if (errnoOf(cause) !== 'EPIPE') throw cause;
}
