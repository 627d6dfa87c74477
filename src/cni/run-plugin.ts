import type { Clock } from '../base/clock.ts';
import { basename } from 'node:path';
import { isNetplugError, NetplugError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Random } from '../base/random.ts';
import { Stopwatch } from '../base/stopwatch.ts';
import { parseTraceParent, type TraceParent } from '../base/trace-parent.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import type { CallStore } from '../datastore/store.ts';
import type { Attachment } from '../model/names.ts';
import type { Datastore, OrchSettings } from '../config/connection.ts';
import type { ReadAs } from '../config/decode.ts';
import { CNI_VERSIONS, type CniVersion, type LogSettings, type Netconf } from '../config/netconf.ts';
import { parseJsonObject } from '../config/parse-json.ts';
import type { AttachmentRecords } from './attachment-records.ts';
import { type CniCall, callFacts, type CniPorts } from './call.ts';
import type { CallIdentity, CallRecord, Failure, Program } from './call-record.ts';
import { type Deadlines, deadlines } from './deadline.ts';
import { decodeCall } from './decode-call.ts';
import type { ExecDelegate } from './delegate.ts';
import { failureFacts, failureOf, renderError } from './error-output.ts';
import type { ProbeGate } from './gates.ts';
import { allowsOwnNetns, type CniVerb, decodeInvocation, type Invocation } from './invocation.ts';
import type { OrchReader } from './orch-reader.ts';
import { type NodeNameSources, possibleNodeNames, resolveNodeName } from './node-name.ts';
import { type CniResult, renderResult } from './result.ts';
import { serveIpam, serveNetwork } from './serve.ts';
import { assertVerbAllowed, versionAnswer } from './version.ts';

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
  /** `text` is what `raw` was parsed from. @throws what decoding a network configuration throws */
  readonly decodeNetconf: (raw: unknown, from: { readonly as: ReadAs; readonly text: string }) => Netconf;
  /** The node name the agent registered, if it did. */
  readonly readRegisteredName: () => string | undefined;
  /** The MTU, in bytes, for pods whose configuration names none; undefined leaves it to the kernel. */
  readonly readOfferedMtu: () => number | undefined;
  /** Stopwatch and log are the call's. */
  readonly openStore: (datastore: Datastore, call: { readonly watch: Stopwatch; readonly log: Log }) => CallStore;
  readonly openOrch: (settings: OrchSettings) => OrchReader & AsyncDisposable;
  /** Plugin types of the installed network list with that name. */
  readonly readPluginList: (network: string) => readonly string[] | undefined;
  /** What the node remembers of its attachments. */
  readonly attachments: AttachmentRecords;
  readonly openKernel: (options: { allowOwnNetns: boolean }) => Kernel;
  /** Logs to stderr, and to the file when there is one. */
  readonly openLog: (settings: LogSettings) => Log;
  /**
   * Settles what an agent that is gone has left for this node, and records what living pods use and the datastore has
   * lost. @throws agent/busy, store/*, kernel/failed
   */
  readonly settleLeftovers: (
    ports: CniPorts,
    what: { readonly call: CniCall; readonly command: CniVerb; readonly datastore: Datastore },
  ) => Promise<void>;
  /** Runs delegates for the call's own attachment, or for another one. */
  readonly execDelegateFor: (attachment: Pick<Attachment, 'containerId' | 'ifName'> | undefined) => ExecDelegate;
}

/** What the program shall print on stdout, and its exit status. */
export interface PluginAnswer {
  readonly stdout: string;
  readonly status: 0 | 1;
}

/** An answer, and what is to be told of how it came about. */
export interface Served extends PluginAnswer {
  readonly record: CallRecord;
  /** Where the call logged. */
  readonly log: Log;
}

const BEFORE_CONFIG: LogSettings = {
  level: 'INFO',
  filePath: undefined,
  fileMaxSizeMb: 100,
  fileMaxAgeDays: 30,
  fileMaxCount: 10,
};

/** Serves one call of the runtime, from environment and stdin to the answer; never throws. */
export async function runPlugin(program: Program, around: Surroundings): Promise<Served> {
  const watch = new Stopwatch(around.clock, 'decode');
  const startedAt = around.clock.now();
  const told: Told = {
    version: undefined,
    command: undefined,
    log: around.openLog(BEFORE_CONFIG),
    identity: identityIn(around.env),
    parent: parseTraceParent(around.env['TRACEPARENT'] ?? '', around.env['TRACESTATE']),
  };
  const { answer, failure } = await answerCall({ program, around, watch, told });
  const { command, identity, parent } = told;
  const record = { program, command, identity, startedAt, ...watch.stop(), failure, parent };
  return { ...answer, record, log: told.log };
}

/** What becomes known in the course of a call, so that its end can be told however far it came. */
interface Told {
  version: CniVersion | undefined;
  command: CniVerb | undefined;
  log: Log;
  identity: CallIdentity;
  parent: TraceParent | undefined;
}

interface Beginning {
  readonly program: Program;
  readonly around: Surroundings;
  readonly watch: Stopwatch;
  readonly told: Told;
}

async function answerCall(beginning: Beginning): Promise<{ answer: PluginAnswer; failure: Failure | undefined }> {
  const { program, around, watch, told } = beginning;
  try {
    const invocation = decodeInvocation(around.env);
    told.command = invocation.command;
    const limits = deadlines(around.env, invocation.command, around.interrupted);
    try {
      const text = await watch.time('input', async () => around.readStdin(limits.work));
      if (invocation.command === 'VERSION') return served(print(versionAnswer(askedVersion(text))));
      const raw = parseJsonObject(text);
      told.version = knownVersion(raw['cniVersion']);
      const config = around.decodeNetconf(raw, { as: program === 'netplug' ? 'network' : 'ipam', text });
      told.version = config.cniVersion;
      assertVerbAllowed(invocation.command, config.cniVersion);
      told.log = around.openLog(config.log);
      for (const warning of config.warnings) told.log.warning('configuration', { warning });
      if (told.parent === undefined && (around.env['TRACEPARENT'] ?? '') !== '')
        told.log.debug('TRACEPARENT ignored: it is malformed', { traceparent: around.env['TRACEPARENT'] });
      const result = await serve({ ...beginning, invocation, raw, config, limits });
      watch.enter('answer');
      return served(result === undefined ? { stdout: '', status: 0 } : print(renderResult(result, config.cniVersion)));
    } catch (cause) {
      throw nameThePhase(cause, watch);
    } finally {
      limits.clear();
    }
  } catch (cause) {
    watch.enter('answer');
    const facts = { command: around.env['CNI_COMMAND'], ...identityIn(around.env), ...failureFacts(cause) };
    told.log.error('call failed', { ...facts, ...watch.facts() });
    return { answer: { ...print(renderError(cause, told.version)), status: 1 }, failure: failureOf(cause) };
  }
}

function served(answer: PluginAnswer): { answer: PluginAnswer; failure: undefined } {
  return { answer, failure: undefined };
}

interface Serving extends Beginning {
  readonly invocation: Invocation;
  readonly raw: Readonly<Record<string, unknown>>;
  readonly config: Netconf;
  readonly limits: Deadlines;
}

async function serve(serving: Serving): Promise<CniResult | undefined> {
  const { invocation, config, around, watch, told } = serving;
  const names: NodeNameSources = {
    configured: config.nodename,
    hostname: around.hostname,
    registered: around.readRegisteredName(),
  };
  const isCleaning = invocation.command === 'DEL' || invocation.command === 'GC';
  const nodes = isCleaning ? possibleNodeNames(names) : [resolveNodeName(names)];
  watch.enter('setup');
  await using store = around.openStore(config.datastore, { watch, log: told.log });
  await using orch = around.openOrch(config.orch);
  const execDelegateFor: Surroundings['execDelegateFor'] = (attachment) => {
    const exec = around.execDelegateFor(attachment);
    // The standard bandwidth plugin is a step of its own; every other delegate manages addresses.
    const phaseOf = (file: string): string => (basename(file) === 'bandwidth' ? 'bandwidth' : 'delegate');
    return async (file, call) => watch.time(phaseOf(file), async () => exec(file, call));
  };
  const ports: CniPorts = {
    clock: around.clock,
    random: around.random,
    probeGate: around.probeGate,
    readPluginList: around.readPluginList,
    readOfferedMtu: around.readOfferedMtu,
    execDelegateFor,
    execDelegate: execDelegateFor(undefined),
    kernel: watch.timePort('kernel', around.openKernel({ allowOwnNetns: allowsOwnNetns(around.env) })),
    attachments: around.attachments,
    store: watch.timePort('store', store),
    orch: watch.timePort('orchestrator', orch),
    log: told.log,
    watch,
  };
  try {
    let result: CniResult | undefined;
    for (const node of nodes) {
      watch.enter('plan');
      const call = decodeCall(serving, node, serving.limits);
      told.identity = callFacts(call);
      const { command } = invocation;
      await watch.time('recovery', async () =>
        around.settleLeftovers(ports, { call, command, datastore: config.datastore }),
      );
      result = await serveBy(serving.program, ports, { call, invocation });
    }
    return result;
  } finally {
    watch.enter('close');
  }
}

async function serveBy(
  program: Program,
  ports: CniPorts,
  { call, invocation }: { call: CniCall; invocation: Invocation },
): Promise<CniResult | undefined> {
  return program === 'netplug' ? serveNetwork(ports, call, invocation) : serveIpam(ports, call, invocation);
}

/** A runtime that probes may send nothing at all; then the newest version is answered. */
function askedVersion(text: string): CniVersion | undefined {
  return text.trim() === '' ? undefined : knownVersion(parseJsonObject(text)['cniVersion']);
}

function knownVersion(raw: unknown): CniVersion | undefined {
  return CNI_VERSIONS.find((version) => version === raw);
}

/** Adds to an overrun what the call was waiting for. */
function nameThePhase(cause: unknown, watch: Stopwatch): unknown {
  const phase = watch.phaseOf(cause);
  if (!isNetplugError(cause, 'cni/deadline') || phase === undefined) return cause;
  const { hint } = cause;
  return new NetplugError('cni/deadline', `${cause.message}, waiting for the ${phase}`, {
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

function identityIn(env: Surroundings['env']): CallIdentity {
  return { containerId: env['CNI_CONTAINERID'], ifName: env['CNI_IFNAME'] };
}

function print(document: Record<string, unknown>): { stdout: string; status: 0 } {
  return { stdout: `${JSON.stringify(document, undefined, 2)}\n`, status: 0 };
}
