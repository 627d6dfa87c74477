/**
 * Every way netplug can refuse or fail. The code string is a public contract; `cni` is the number in the JSON error a
 * runtime reads (the standard's own meanings keep their numbers, ours start at 100), `exit` the status of netplugctl,
 * `retry` whether the same call may succeed later without anybody changing anything.
 */
export const ERRORS = {
  'cni/version-unsupported': {
    cni: 1,
    exit: 78,
    retry: false,
    about: 'The configuration asks for a version of the CNI specification, or a verb of it, that is not supported.',
  },
  'netconf/needs-orchestrator': {
    cni: 2,
    exit: 69,
    retry: false,
    about: 'A setting needs the API of the orchestrator, and nothing gives access to it.',
  },
  'cni/env-invalid': { cni: 4, exit: 64, retry: false, about: 'A CNI_* environment variable is missing or malformed.' },
  'cni/input-failed': {
    cni: 5,
    exit: 74,
    retry: true,
    about: 'The network configuration could not be read from standard input.',
  },
  'cni/input-undecodable': {
    cni: 6,
    exit: 65,
    retry: false,
    about: 'Standard input is empty, too large or not a JSON object.',
  },
  'netconf/invalid': {
    cni: 7,
    exit: 78,
    retry: false,
    about: 'The network configuration breaks a rule; every problem is listed with its path.',
  },
  'ipam/pool-not-found': {
    cni: 7,
    exit: 78,
    retry: false,
    about: 'A pool is named that does not exist, or only part of a pool is named.',
  },
  'ipam/pool-unusable': {
    cni: 7,
    exit: 78,
    retry: false,
    about: 'A pool is named that exists but is disabled, of the other address family or reserved for another use.',
  },
  'node/name-mismatch': {
    cni: 7,
    exit: 78,
    retry: false,
    about: 'The node agent registered this machine under another node name than the plugin would use.',
  },
  'kernel/netns-invalid': {
    cni: 8,
    exit: 66,
    retry: false,
    about: 'The network namespace of the pod does not exist, is not one, or is the plugin’s own.',
  },
  'store/unavailable': { cni: 11, exit: 75, retry: true, about: 'The datastore did not answer in time.' },
  'store/conflict': {
    cni: 11,
    exit: 75,
    retry: true,
    about: 'Other writers kept changing the same record until the time was up.',
  },
  'ipam/exhausted': { cni: 11, exit: 75, retry: true, about: 'No pool that may be used has a free address.' },
  'ipam/set-aside': {
    cni: 11,
    exit: 75,
    retry: true,
    about:
      'The last free addresses, or the one asked for, are set aside by the agent of another node that does not answer.',
  },
  'gate/not-ready': {
    cni: 11,
    exit: 75,
    retry: true,
    about: 'A readiness gate did not answer with success before the time was up.',
  },
  'store/locked': {
    cni: 11,
    exit: 75,
    retry: true,
    about: 'The datastore is locked, as while it is moved: no address is assigned or released until it is unlocked.',
  },
  'cni/deadline': { cni: 11, exit: 75, retry: true, about: 'The call ran out of time.' },
  'agent/journal-failed': {
    cni: 11,
    exit: 74,
    retry: true,
    about: 'What the agent has decided could not be written to its journal.',
  },
  'agent/address-conflict': {
    cni: 117,
    exit: 78,
    retry: false,
    about: 'Another node is registered with an address of this node; the agent ends.',
  },
  'agent/not-alone': {
    cni: 11,
    exit: 75,
    retry: true,
    about: 'Another agent serves the node and does not end.',
  },
  'agent/busy': {
    cni: 11,
    exit: 75,
    retry: true,
    about: 'An agent that does not answer has decided something about this attachment and not published it yet.',
  },
  'status/not-ready': { cni: 50, exit: 69, retry: true, about: 'An ADD could not be served now.' },
  'ipam/address-taken': { cni: 100, exit: 69, retry: false, about: 'The address asked for is held by somebody else.' },
  'ipam/address-not-in-pool': {
    cni: 101,
    exit: 78,
    retry: false,
    about: 'The address asked for lies in no IP pool that may hand it out.',
  },
  'ipam/strict-affinity': {
    cni: 102,
    exit: 69,
    retry: false,
    about: 'The address asked for lies in a block of another node, and strict affinity forbids borrowing it.',
  },
  'annotation/invalid': {
    cni: 104,
    exit: 65,
    retry: false,
    about: 'An annotation of the pod or its namespace breaks a rule; pod, key, value and rule are named.',
  },
  'orch/not-found': {
    cni: 105,
    exit: 66,
    retry: true,
    about: 'The orchestrator knows no pod, namespace or node of that name, or the node has no pod CIDR.',
  },
  'ipam/request-invalid': {
    cni: 103,
    exit: 78,
    retry: false,
    about: 'Addresses are asked for in a way that is not allowed: malformed, two of one family, or none at all.',
  },
  'kernel/interface-exists': {
    cni: 110,
    exit: 73,
    retry: false,
    about: 'The pod already has an interface of that name which netplug did not make for this attachment.',
  },
  'kernel/foreign-route': {
    cni: 111,
    exit: 73,
    retry: false,
    about: 'The host already routes the address of the pod to something that is not netplug’s.',
  },
  'kernel/module-missing': {
    cni: 113,
    exit: 69,
    retry: false,
    about: 'The kernel lacks the module for a kind of tunnel that an IP pool asks for.',
  },
  'kernel/failed': {
    cni: 112,
    exit: 71,
    retry: true,
    about: 'The kernel refused a change of links, addresses or routes.',
  },
  'kernel/nft-missing': {
    cni: 113,
    exit: 72,
    retry: false,
    about: 'The program `nft` is not installed where the agent runs, so addresses cannot be translated.',
  },
  'check/mismatch': {
    cni: 120,
    exit: 1,
    retry: false,
    about: 'CHECK found a difference between the kernel, the datastore and the result of ADD.',
  },
  'store/refused': {
    cni: 130,
    exit: 77,
    retry: false,
    about: 'The datastore refused the credentials, or its certificate is not trusted.',
  },
  'store/config-invalid': {
    cni: 131,
    exit: 78,
    retry: false,
    about: 'The connection to the datastore is configured wrongly: unreadable file, no endpoint, failed discovery.',
  },
  'store/corrupt': { cni: 132, exit: 65, retry: false, about: 'A record in the datastore cannot be understood.' },
  'delegate/not-found': {
    cni: 140,
    exit: 72,
    retry: false,
    about: 'The executable of a delegated plugin is in none of the folders of CNI_PATH.',
  },
  'delegate/failed': {
    cni: 141,
    exit: 70,
    retry: true,
    about: 'A delegated plugin failed without a CNI error of its own.',
  },
  'resource/invalid': {
    cni: 150,
    exit: 65,
    retry: false,
    about: 'A resource breaks a rule; every problem is listed with its path.',
  },
  'resource/not-found': { cni: 151, exit: 66, retry: false, about: 'There is no resource of that kind and name.' },
  'resource/exists': { cni: 152, exit: 73, retry: false, about: 'A resource of that kind and name exists already.' },
  'resource/changed': {
    cni: 153,
    exit: 75,
    retry: true,
    about: 'The resource was changed by somebody else since it was read.',
  },
  'resource/in-use': {
    cni: 154,
    exit: 69,
    retry: false,
    about: 'Pods hold addresses of the resource, the orchestrator still has the node, or an agent runs on it.',
  },
  'resource/not-writable': {
    cni: 155,
    exit: 69,
    retry: false,
    about: 'The resource belongs to the orchestrator or to netplug itself: nobody writes it through netplug.',
  },
  'resource/label-exists': {
    cni: 156,
    exit: 73,
    retry: false,
    about: 'The label or annotation has another value already, and nobody has asked to overwrite it.',
  },
  'resource/field-conflict': {
    cni: 157,
    exit: 69,
    retry: false,
    about: 'Somebody else has written fields of the resource that would be changed; each is named with its owner.',
  },
  'cli/usage': {
    cni: 160,
    exit: 64,
    retry: false,
    about: 'The command line is not understood, or a file named on it cannot be read.',
  },
  'cli/version-mismatch': {
    cni: 162,
    exit: 79,
    retry: false,
    about: 'The tool is of another version than the cluster, and would write.',
  },
  'cli/export-unusable': {
    cni: 163,
    exit: 65,
    retry: false,
    about: 'The file is not one that `datastore export` has written, or was changed since.',
  },
  'cli/import-refused': {
    cni: 164,
    exit: 73,
    retry: false,
    about: 'The datastore cannot take the import, or give it back: what stands against it is named.',
  },
  'cli/import-differs': {
    cni: 165,
    exit: 1,
    retry: true,
    about: 'What was read back after an import is not what the file says.',
  },
  'cli/program-missing': {
    cni: 166,
    exit: 72,
    retry: false,
    about: 'A program that the command needs is not installed.',
  },
  'install/failed': {
    cni: 161,
    exit: 74,
    retry: false,
    about: 'A file or folder of the node could not be written or removed: no room, no permission, read-only.',
  },
  'install/incomplete': {
    cni: 11,
    exit: 69,
    retry: true,
    about: 'No agent takes the call, and the program that serves calls alone cannot be executed.',
  },
  'agent/unreachable': {
    cni: 170,
    exit: 69,
    retry: true,
    about: 'No agent of this node listens on its socket, or it went away without an answer.',
  },
  'agent/socket-unusable': {
    cni: 171,
    exit: 73,
    retry: false,
    about: 'The agent cannot listen on its socket: the folder belongs to others or cannot be written.',
  },
  'agent/protocol': {
    cni: 172,
    exit: 76,
    retry: false,
    about: 'What came over the socket of the agent is no request or answer of netplug.',
  },
  'agent/health-failed': {
    cni: 173,
    exit: 69,
    retry: false,
    about: 'The address for health and metrics is malformed, or cannot be listened on.',
  },
  'agent/detection-invalid': {
    cni: 174,
    exit: 78,
    retry: false,
    about: 'The way to find an address of the node is not one that netplug knows, or is malformed.',
  },
  'bgp/bird-missing': {
    cni: 180,
    exit: 72,
    retry: false,
    about: 'The routing daemon BIRD, which speaks BGP for the node, is not installed.',
  },
  'bgp/bird-failed': {
    cni: 181,
    exit: 70,
    retry: true,
    about: 'BIRD does not start, does not answer on its control socket or refuses its configuration.',
  },
  'bgp/peer-unusable': {
    cni: 182,
    exit: 78,
    retry: false,
    about: 'A session of BGP cannot be set up as configured, and is left out.',
  },
  'internal/invariant': {
    cni: 999,
    exit: 70,
    retry: false,
    about: 'netplug broke one of its own rules: a bug to report.',
  },
} as const satisfies Record<string, { cni: number; exit: number; retry: boolean; about: string }>;

export type ErrorCode = keyof typeof ERRORS;
export type Facts = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** A refusal or failure with a stable code, a message for people, a hint what to do, and its facts as data. */
export class NetplugError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly facts: Facts;

  constructor(code: ErrorCode, message: string, more: { hint?: string; facts?: Facts; cause?: unknown } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'NetplugError';
    this.code = code;
    this.hint = more.hint;
    this.facts = more.facts ?? {};
  }
}

/** Says whether `cause` is a NetplugError of one of the given codes (of any code when none is given). */
export function isNetplugError(cause: unknown, ...codes: readonly ErrorCode[]): cause is NetplugError {
  return cause instanceof NetplugError && (codes.length === 0 || codes.includes(cause.code));
}

/** Turns anything thrown into a NetplugError; what is not one yet is a bug of ours and says so. */
export function toNetplugError(cause: unknown): NetplugError {
  if (cause instanceof NetplugError) return cause;
  return new NetplugError('internal/invariant', `Cannot finish the call: ${reasonOf(cause)}`, {
    hint: 'Report this as a bug of netplug, with the log of the call',
    cause,
  });
}

/** @throws internal/invariant when `fact` is false. */
export function invariant(fact: boolean, broken: string): asserts fact {
  if (!fact) {
    throw new NetplugError('internal/invariant', `Cannot go on: ${broken}`, {
      hint: 'Report this as a bug of netplug',
    });
  }
}

/** The default branch of an exhaustive switch. */
export function never(value: never): never {
  throw new NetplugError('internal/invariant', `Cannot go on: unexpected value ${JSON.stringify(value)}`);
}

/** The errno name (`ENOENT`, …) of a failed system call made through node:fs, node:net and the like. */
export function errnoOf(cause: unknown): string | undefined {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
}

/** What happened, in words; of the errors that one name with several addresses leads to, each once. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof AggregateError) return [...new Set(cause.errors.map(reasonOf))].join(', ');
  return cause instanceof Error ? cause.message : String(cause);
}
