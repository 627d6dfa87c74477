import type { RetryPorts } from '../base/back-off.ts';
import { basename } from 'node:path';
import { isNetplugError, NetplugError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { Stopwatch } from '../base/stopwatch.ts';
import { parseTraceParent, type TraceParent } from '../base/trace-parent.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import type { CallStore } from '../datastore/store.ts';
import type { Attachment } from '../model/names.ts';
import type { UsedRange } from '../model/used-range.ts';
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
import type { InstalledList } from './installed-list.ts';
import type { KeptNotes } from './kept-notes.ts';
import type { LinkKey } from './link-name.ts';
import type { OrchReader } from './orch-reader.ts';
import type { PodIsolation } from './pod-isolation.ts';
import { type NodeNameSources, possibleNodeNames, resolveNodeName } from './node-name.ts';
import { type CniResult, renderResult } from './result.ts';
import { serveIpam, serveNetwork } from './serve.ts';
import { assertVerbAllowed, versionAnswer } from './version.ts';

/** Dependencies of serving a call. `bin/` builds them. */
export interface PluginDependencies extends RetryPorts {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  readonly probeGate: ProbeGate;
  /** Aborted when the caller gives up (SIGTERM, SIGINT). */
  readonly interrupted: AbortSignal;
  /** @throws cni/input-failed, cni/input-undecodable when it is too large */
  readonly readStdin: (signal: AbortSignal) => Promise<string>;
  /** `text` is what `raw` was parsed from. @throws what decoding a network configuration throws */
  readonly decodeNetconf: (raw: unknown, from: { readonly as: ReadAs; readonly text: string }) => Netconf;
  /** Returns the node name that the agent registered; undefined when no agent has. */
  readonly readRegisteredName: () => string | undefined;
  /** Returns the MTU, in bytes, for pods whose configuration sets none; undefined leaves it to the kernel. */
  readonly readOfferedMtu: () => number | undefined;
  /** Milliseconds of its rate that a pod with a limit sends or receives at once. */
  readonly bandwidthBurstMs: number;
  /** Returns the networks of the node's own interfaces, over which no address is assigned. */
  readonly ownRanges: () => readonly UsedRange[];
  /** Stopwatch and log are the call's. */
  readonly openStore: (datastore: Datastore, call: { readonly stopwatch: Stopwatch; readonly log: Log }) => CallStore;
  readonly openOrch: (settings: OrchSettings) => OrchReader & AsyncDisposable;
  /** Returns what the installed configuration list of the network says; undefined when there is none. */
  readonly readInstalledList: (network: string) => InstalledList | undefined;
  /** The node's own records of its attachments. */
  readonly attachments: AttachmentRecords;
  readonly keptNotes: KeptNotes;
  readonly linkKey: LinkKey;
  readonly openKernel: (options: { allowOwnNetns: boolean }) => Kernel;
  readonly isolation: PodIsolation;
  /** Opens a log that writes to stderr, and to the configured file if any. */
  readonly openLog: (settings: LogSettings) => Log;
  /**
   * Replays the orphaned journals of earlier agents, and records addresses that running pods use and the datastore has
   * lost. @throws agent/busy, store/*, kernel/failed
   */
  readonly recover: (
    ports: CniPorts,
    what: { readonly call: CniCall; readonly command: CniVerb; readonly datastore: Datastore },
  ) => Promise<void>;
  /** Returns the function that runs delegated plugins for the call's own attachment (undefined) or for another one. */
  readonly execDelegateFor: (attachment: Pick<Attachment, 'containerId' | 'ifName'> | undefined) => ExecDelegate;
}

/** Output that the program must print on stdout, and its exit status. */
export interface PluginAnswer {
  readonly stdout: string;
  readonly status: 0 | 1;
}

/** The answer to a call, with its record. */
export interface CallOutcome extends PluginAnswer {
  readonly record: CallRecord;
  /** The log of the call. */
  readonly log: Log;
}

const BEFORE_CONFIG: LogSettings = {
  level: 'INFO',
  filePath: undefined,
  fileMaxSizeMb: 100,
  fileMaxAgeDays: 30,
  fileMaxCount: 10,
};

/** Serves one CNI call, from environment and stdin to the answer. Never throws. */
export async function runPlugin(program: Program, dependencies: PluginDependencies): Promise<CallOutcome> {
  const stopwatch = new Stopwatch(dependencies.clock, 'decode');
  const startedAt = dependencies.clock.now();
  const progress: CallProgress = {
    version: undefined,
    command: undefined,
    log: dependencies.openLog(BEFORE_CONFIG),
    identity: identityIn(dependencies.env),
    parent: parseTraceParent(dependencies.env['TRACEPARENT'] ?? '', dependencies.env['TRACESTATE']),
  };
  const { answer, failure } = await answerCall({ program, dependencies, stopwatch, progress });
  const { command, identity, parent } = progress;
  const record = { program, command, identity, startedAt, ...stopwatch.stop(), failure, parent };
  return { ...answer, record, log: progress.log };
}

/** Facts known of the call so far, for the log and record of a call that fails at any point. */
interface CallProgress {
  version: CniVersion | undefined;
  command: CniVerb | undefined;
  log: Log;
  identity: CallIdentity;
  parent: TraceParent | undefined;
}

interface CallContext {
  readonly program: Program;
  readonly dependencies: PluginDependencies;
  readonly stopwatch: Stopwatch;
  readonly progress: CallProgress;
}

async function answerCall(context: CallContext): Promise<{ answer: PluginAnswer; failure: Failure | undefined }> {
  const { program, dependencies, stopwatch, progress } = context;
  try {
    const invocation = decodeInvocation(dependencies.env);
    progress.command = invocation.command;
    const limits = deadlines(dependencies.env, invocation.command, dependencies.interrupted);
    try {
      const text = await stopwatch.time('input', async () => dependencies.readStdin(limits.work));
      if (invocation.command === 'VERSION') return served(print(versionAnswer(askedVersion(text))));
      const raw = parseJsonObject(text);
      progress.version = knownVersion(raw['cniVersion']);
      const config = dependencies.decodeNetconf(raw, { as: program === 'netplug' ? 'network' : 'ipam', text });
      progress.version = config.cniVersion;
      assertVerbAllowed(invocation.command, config.cniVersion);
      progress.log = dependencies.openLog(config.log);
      for (const warning of config.warnings) progress.log.warning('configuration problem found', { problem: warning });
      if (progress.parent === undefined && (dependencies.env['TRACEPARENT'] ?? '') !== '')
        progress.log.debug('malformed TRACEPARENT ignored', { traceparent: dependencies.env['TRACEPARENT'] });
      const result = await serve({ ...context, invocation, raw, config, limits });
      stopwatch.enter('answer');
      return served(result === undefined ? { stdout: '', status: 0 } : print(renderResult(result, config.cniVersion)));
    } catch (cause) {
      throw addPhase(cause, stopwatch);
    } finally {
      limits.clear();
    }
  } catch (cause) {
    stopwatch.enter('answer');
    const facts = { command: dependencies.env['CNI_COMMAND'], ...identityIn(dependencies.env), ...failureFacts(cause) };
    progress.log.error('call failed', { ...facts, ...stopwatch.facts() });
    return { answer: { ...print(renderError(cause, progress.version)), status: 1 }, failure: failureOf(cause) };
  }
}

function served(answer: PluginAnswer): { answer: PluginAnswer; failure: undefined } {
  return { answer, failure: undefined };
}

interface DecodedInput extends CallContext {
  readonly invocation: Invocation;
  readonly raw: Readonly<Record<string, unknown>>;
  readonly config: Netconf;
  readonly limits: Deadlines;
}

async function serve(input: DecodedInput): Promise<CniResult | undefined> {
  const { invocation, config, dependencies, stopwatch, progress } = input;
  const names: NodeNameSources = {
    configured: config.nodename,
    hostname: dependencies.hostname,
    registered: dependencies.readRegisteredName(),
  };
  const isCleaning = invocation.command === 'DEL' || invocation.command === 'GC';
  const nodes = isCleaning ? possibleNodeNames(names) : [resolveNodeName(names)];
  stopwatch.enter('setup');
  await using store = dependencies.openStore(config.datastore, { stopwatch, log: progress.log });
  await using orch = dependencies.openOrch(config.orch);
  const execDelegateFor: PluginDependencies['execDelegateFor'] = (attachment) => {
    const exec = dependencies.execDelegateFor(attachment);
    // The standard bandwidth plugin has a phase of its own; all other delegated plugins manage addresses.
    const phaseOf = (file: string): string => (basename(file) === 'bandwidth' ? 'bandwidth' : 'delegate');
    return async (file, call) => stopwatch.time(phaseOf(file), async () => exec(file, call));
  };
  const ports: CniPorts = {
    ...dependencies,
    execDelegateFor,
    execDelegate: execDelegateFor(undefined),
    kernel: stopwatch.timePort('kernel', dependencies.openKernel({ allowOwnNetns: allowsOwnNetns(dependencies.env) })),
    store: stopwatch.timePort('store', store),
    orch: stopwatch.timePort('orchestrator', orch),
    log: progress.log,
    stopwatch,
  };
  try {
    let result: CniResult | undefined;
    for (const node of nodes) {
      stopwatch.enter('plan');
      const call = decodeCall(input, node, input.limits);
      progress.identity = callFacts(call);
      const { command } = invocation;
      await stopwatch.time('recovery', async () =>
        dependencies.recover(ports, { call, command, datastore: config.datastore }),
      );
      result = await (input.program === 'netplug' ? serveNetwork : serveIpam)(ports, call, invocation);
    }
    return result;
  } finally {
    stopwatch.enter('close');
  }
}

/** Returns the requested version. A runtime that probes may send nothing: then it is undefined. */
function askedVersion(text: string): CniVersion | undefined {
  return text.trim() === '' ? undefined : knownVersion(parseJsonObject(text)['cniVersion']);
}

function knownVersion(raw: unknown): CniVersion | undefined {
  return CNI_VERSIONS.find((version) => version === raw);
}

/** Adds to a timeout the phase in which it occurred. */
function addPhase(cause: unknown, stopwatch: Stopwatch): unknown {
  const phase = stopwatch.phaseOf(cause);
  if (!isNetplugError(cause, 'cni/deadline') || phase === undefined) return cause;
  const { hint } = cause;
  return new NetplugError('cni/deadline', `${cause.message}, in phase "${phase}"`, {
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

function identityIn(env: PluginDependencies['env']): CallIdentity {
  return { containerId: env['CNI_CONTAINERID'], ifName: env['CNI_IFNAME'] };
}

function print(document: Record<string, unknown>): { stdout: string; status: 0 } {
  return { stdout: `${JSON.stringify(document, undefined, 2)}\n`, status: 0 };
}
