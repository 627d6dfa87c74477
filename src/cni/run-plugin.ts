import type { Clock } from '../base/clock.ts';
import { isNetplugError, NetplugError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Random } from '../base/random.ts';
import { Stopwatch } from '../base/stopwatch.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import type { Store } from '../datastore/store.ts';
import type { Attachment } from '../model/names.ts';
import type { Datastore, OrchSettings } from '../netconf/connection.ts';
import { decodeNetconf } from '../netconf/decode.ts';
import { CNI_VERSIONS, type CniVersion, type LogSettings, type Netconf } from '../netconf/netconf.ts';
import { parseJsonObject } from '../netconf/parse-json.ts';
import type { CniPorts } from './call.ts';
import { type Deadlines, deadlines } from './deadline.ts';
import { decodeCall } from './decode-call.ts';
import type { ExecDelegate } from './delegate.ts';
import { failureFacts, renderError } from './error-output.ts';
import type { ProbeGate } from './gates.ts';
import { allowsOwnNetns, decodeInvocation, type Invocation } from './invocation.ts';
import type { OrchReader } from './orch-reader.ts';
import { type NodeNameSources, possibleNodeNames, resolveNodeName } from './node-name.ts';
import { type CniResult, renderResult } from './result.ts';
import { serveIpam, serveNetwork } from './serve.ts';
import { assertVerbAllowed, versionAnswer } from './version.ts';

export type Program = 'netplug' | 'netplug-ipam';

/** The world around one call; `bin/` builds the real one. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly probeGate: ProbeGate;
  /** Aborted when the caller gives up (SIGTERM, SIGINT). */
  readonly interrupted: AbortSignal;
  /** @throws cni/input-failed, cni/input-undecodable when it is larger than netplug reads */
  readonly readStdin: (signal: AbortSignal) => Promise<string>;
  /** The node name the agent registered, if it did. */
  readonly readRegisteredName: () => string | undefined;
  readonly openStore: (datastore: Datastore) => Store;
  readonly openOrch: (settings: OrchSettings) => OrchReader & AsyncDisposable;
  /** Plugin types of the installed network list with that name. */
  readonly readPluginList: (network: string) => readonly string[] | undefined;
  readonly openKernel: (options: { allowOwnNetns: boolean }) => Kernel;
  /** Logs to stderr, and to the file when there is one. */
  readonly openLog: (settings: LogSettings) => Log;
  /** Runs delegates for the call's own attachment, or for another one. */
  readonly execDelegateFor: (attachment: Pick<Attachment, 'containerId' | 'ifName'> | undefined) => ExecDelegate;
}

/** What the program shall print on stdout, and its exit status. */
export interface Answer {
  readonly stdout: string;
  readonly status: 0 | 1;
}

const BEFORE_CONFIG: LogSettings = {
  level: 'INFO',
  filePath: undefined,
  fileMaxSizeMb: 100,
  fileMaxAgeDays: 30,
  fileMaxCount: 10,
};

/** Serves one call of the runtime, from environment and stdin to the answer; never throws. */
export async function runPlugin(program: Program, around: Surroundings): Promise<Answer> {
  const watch = new Stopwatch(around.clock);
  const told: { version: CniVersion | undefined; log: Log } = {
    version: undefined,
    log: around.openLog(BEFORE_CONFIG),
  };
  try {
    const invocation = decodeInvocation(around.env);
    const limits = deadlines(around.env, invocation.command, around.interrupted);
    try {
      if (invocation.command === 'VERSION') return print(versionAnswer(await askedVersion(around, limits)));
      const raw = parseJsonObject(await around.readStdin(limits.work));
      told.version = knownVersion(raw['cniVersion']);
      const config = decodeNetconf(raw, program === 'netplug' ? 'network' : 'ipam');
      told.version = config.cniVersion;
      assertVerbAllowed(invocation.command, config.cniVersion);
      told.log = around.openLog(config.log);
      for (const warning of config.warnings) told.log.warning('configuration', { warning });
      const result = await serve({ program, invocation, raw, config, around, log: told.log, watch, limits });
      return result === undefined ? { stdout: '', status: 0 } : print(renderResult(result, config.cniVersion));
    } catch (cause) {
      throw nameThePhase(cause, watch);
    } finally {
      limits.clear();
    }
  } catch (cause) {
    told.log.error('call failed', { ...factsOf(around.env), ...failureFacts(cause), ...watch.facts() });
    return { ...print(renderError(cause, told.version)), status: 1 };
  }
}

interface Serving {
  readonly program: Program;
  readonly invocation: Invocation;
  readonly raw: Readonly<Record<string, unknown>>;
  readonly config: Netconf;
  readonly around: Surroundings;
  readonly log: Log;
  readonly watch: Stopwatch;
  readonly limits: Deadlines;
}

async function serve(serving: Serving): Promise<CniResult | undefined> {
  const { invocation, config, around, program, log, watch } = serving;
  const names: NodeNameSources = {
    configured: config.nodename,
    hostname: around.hostname,
    registered: around.readRegisteredName(),
  };
  const isCleaning = invocation.command === 'DEL' || invocation.command === 'GC';
  const nodes = isCleaning ? possibleNodeNames(names) : [resolveNodeName(names)];
  await using store = around.openStore(config.datastore);
  await using orch = around.openOrch(config.orch);
  const ports: CniPorts = {
    clock: around.clock,
    random: around.random,
    probeGate: around.probeGate,
    readPluginList: around.readPluginList,
    execDelegateFor: around.execDelegateFor,
    execDelegate: around.execDelegateFor(undefined),
    kernel: around.openKernel({ allowOwnNetns: allowsOwnNetns(around.env) }),
    store,
    orch,
    log,
    watch,
  };
  let result: CniResult | undefined;
  for (const node of nodes) {
    const call = decodeCall(serving, node, serving.limits);
    result =
      program === 'netplug' ? await serveNetwork(ports, call, invocation) : await serveIpam(ports, call, invocation);
  }
  return result;
}

/** A runtime that probes may send nothing at all; then the newest version is answered. */
async function askedVersion({ readStdin }: Surroundings, { work }: Deadlines): Promise<CniVersion | undefined> {
  const text = await readStdin(work);
  return text.trim() === '' ? undefined : knownVersion(parseJsonObject(text)['cniVersion']);
}

function knownVersion(raw: unknown): CniVersion | undefined {
  return CNI_VERSIONS.find((version) => version === raw);
}

/** Adds to an overrun what the call was waiting for. */
function nameThePhase(cause: unknown, watch: Stopwatch): unknown {
  if (!isNetplugError(cause, 'cni/deadline') || watch.current === undefined) return cause;
  const { hint } = cause;
  return new NetplugError('cni/deadline', `${cause.message}, waiting for the ${watch.current}`, {
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

function factsOf(env: Surroundings['env']): Record<string, string | undefined> {
  return { command: env['CNI_COMMAND'], containerId: env['CNI_CONTAINERID'], ifName: env['CNI_IFNAME'] };
}

function print(document: Record<string, unknown>): { stdout: string; status: 0 } {
  return { stdout: `${JSON.stringify(document, undefined, 2)}\n`, status: 0 };
}
