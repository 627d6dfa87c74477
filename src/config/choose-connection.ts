import { NetplugError } from '../base/errors.ts';
import { ownValue } from '../base/own-value.ts';
import type { KubeconfigSource } from '../model/kubeconfig-source.ts';
import type { ConnectionOrigin, Datastore, OrchSettings } from './connection.ts';
import {
  CONNECTION_KEYS,
  decodeConnection,
  type DecodedConnection,
  ORCH_KEYS,
  type RawConnection,
} from './decode-connection.ts';
import {
  type ConnectionFacts,
  type ConnectionUse,
  findKubeconfig,
  hasFlags,
  homeKubeconfig,
  listedKubeconfig,
  type NetconfConnection,
  ownVariables,
} from './connection-facts.ts';
import type { Env } from './environment.ts';
import { isRecord } from '../model/read-schema.ts';

type Source = 'config' | 'flags' | 'variables' | 'netconf' | 'KUBECONFIG' | 'node' | 'account' | 'home';

interface Found {
  readonly from: string;
  /** The connection, or why a network configuration is invalid. */
  readonly decoded: DecodedConnection | NetplugError;
  readonly ifRefused?: string;
}

interface Row {
  readonly source: Source;
  /** @throws netconf/invalid, store/config-invalid, netconf/needs-orchestrator */
  readonly find: (facts: ConnectionFacts, use: ConnectionUse) => Found | undefined;
  /** Returns why the row does not apply. */
  readonly absent: (facts: ConnectionFacts) => string;
}

const NO_FLAG = (): string => 'no flag and no variable of netplugctl names a datastore';
const TYPED = 'given on the command line';
const SET = 'set in the environment';
/** Reason to use a row that needs no other; the others are used because the rows above do not apply. */
const GIVEN: Readonly<Partial<Record<Source, string>>> = {
  config: TYPED,
  flags: TYPED,
  variables: SET,
  netconf: TYPED,
};

/** The order in which netplugctl looks for its datastore; docs/netplugctl/connection.md shows it. */
const ROWS: readonly Row[] = [
  { source: 'config', find: fromConfigFile, absent: NO_FLAG },
  { source: 'flags', find: fromFlags, absent: NO_FLAG },
  { source: 'variables', find: fromVariables, absent: NO_FLAG },
  { source: 'netconf', find: ({ netconf }) => fromNetconf(netconf, '--netconf'), absent: NO_FLAG },
  {
    source: 'KUBECONFIG',
    find: ({ env }) => fromKubeconfig(listedKubeconfig(env)),
    absent: () => 'KUBECONFIG is not set',
  },
  {
    source: 'node',
    find: (facts) => {
      const found = fromNetconf(facts.node.netconf, 'the network configuration of this node');
      return found === undefined ? undefined : { ...found, ifRefused: adviceOfNode(facts, found) };
    },
    absent: ({ node: { folder, unreadable } }) =>
      `"${folder}" has no network configuration of netplug${unreadable.length === 0 ? '' : ` that this user can read (${unreadable.join(', ')})`}`,
  },
  {
    source: 'account',
    find: ({ hasAccount }) => (hasAccount ? orchFound('the service account of this pod', {}) : undefined),
    absent: () => 'no service account of a pod is mounted',
  },
  {
    source: 'home',
    find: (facts) => fromKubeconfig(homeKubeconfig(facts)),
    absent: ({ homeFile }) => (homeFile === undefined ? 'HOME is not set' : `"${homeFile.path}" does not exist`),
  },
];

const PASSED_OVER: Readonly<Record<ConnectionUse, readonly Source[]>> = {
  records: [],
  cluster: ['node'],
  'this-node': ['KUBECONFIG', 'account', 'home'],
};

export interface ChosenConnection extends DecodedConnection {
  readonly origin: ConnectionOrigin;
}

/**
 * Decides how netplugctl reaches the datastore: the first row of the order that applies. Pure.
 * @throws store/config-invalid when none does, netconf/invalid and netconf/needs-orchestrator for what the row names
 */
export function chooseConnection(facts: ConnectionFacts, use: ConnectionUse = 'records'): ChosenConnection {
  const chosen = findConnection(facts, use);
  if (chosen !== undefined) return chosen;
  throw new NetplugError('store/config-invalid', `Cannot find the datastore: ${absences(facts, rowsOf(use))}`, {
    hint: `Name a kubeconfig with --kubeconfig FILE or KUBECONFIG, or etcd with KV_ENDPOINTS${sudoHint(facts)}`,
  });
}

/** Decides like `chooseConnection`; undefined when no row applies. Pure. */
export function findConnection(facts: ConnectionFacts, use: ConnectionUse): ChosenConnection | undefined {
  const rows = rowsOf(use);
  for (const [index, row] of rows.entries()) {
    const found = row.find(facts, use);
    if (found === undefined) continue;
    return withOrigin(found, GIVEN[row.source] ?? absences(facts, rows.slice(0, index)));
  }
  return undefined;
}

/**
 * Decides how netplugctl reaches the API server where the records are in etcd. Pure.
 * @throws netconf/needs-orchestrator when nothing gives access to it
 */
export function chooseApi(facts: ConnectionFacts): OrchSettings {
  const chosen = apiFromFlags(facts) ?? apiFromVariables(facts) ?? findAccess(facts, 'cluster');
  const orch = chosen === undefined ? undefined : orchOf(chosen);
  if (chosen !== undefined && orch !== undefined) {
    const { from, why } = chosen;
    return { ...orch, origin: { from, why, ifRefused: undefined } };
  }
  throw noAccess(facts, 'Cannot reach the API of the cluster', 'cluster');
}

interface FoundApi extends Found {
  readonly why: string;
}

function apiFromFlags(facts: ConnectionFacts): FoundApi | undefined {
  const found = fromFlags(facts);
  return found === undefined ? undefined : { ...found, why: TYPED };
}

function apiFromVariables({ env }: ConnectionFacts): FoundApi | undefined {
  const own = Object.entries(ownVariables(env)).filter(([key]) => ORCH_KEYS.some((each) => each === key));
  if (own.length === 0) return undefined;
  const decoded = decodeConnection({ datastore_type: 'orch', ...Object.fromEntries(own) }, FROM_ENVIRONMENT);
  return { from: own.map(([key]) => key.toUpperCase()).join(', '), decoded, why: SET };
}

/** Reads the connection from the variables of netplug alone, as the agent does. @throws netconf/invalid */
export function readOwnVariables(env: Env): DecodedConnection {
  return decodeConnection(ownVariables(env), FROM_ENVIRONMENT);
}

const FROM_ENVIRONMENT = { config: undefined, kubeconfig: undefined };

function rowsOf(use: ConnectionUse): readonly Row[] {
  return ROWS.filter(({ source }) => !PASSED_OVER[use].includes(source));
}

/** Reads a list of absent sources, each reason once. */
function absences(facts: ConnectionFacts, rows: readonly Row[]): string {
  const [first = '', ...others] = new Set(rows.map(({ absent }) => absent(facts)));
  const last = others.pop();
  return last === undefined ? first : `${[first, ...others].join(', ')}, and ${last}`;
}

function withOrigin({ from, decoded, ifRefused }: Found, why: string): ChosenConnection {
  if (decoded instanceof NetplugError) throw invalidNetconf({ from, why, fault: decoded });
  const { datastore, warnings } = decoded;
  const origin = { from, why, ifRefused };
  const named: Datastore =
    datastore.type === 'orch' ? { ...datastore, orch: { ...datastore.orch, origin } } : { ...datastore, origin };
  return { datastore: named, warnings, origin };
}

function fromConfigFile({ config }: ConnectionFacts): Found | undefined {
  if (config === undefined) return undefined;
  const { file, raw } = config;
  if (Object.keys(raw).length === 0) {
    throw new NetplugError('store/config-invalid', `Cannot use file "${file}": it names no datastore`, {
      hint: 'Write kv_endpoints, or orchconfig with the path of a kubeconfig',
    });
  }
  return {
    from: `--config "${file}"`,
    decoded: decodeConnection(withType(raw), { config: file, kubeconfig: undefined }),
  };
}

function fromFlags(facts: ConnectionFacts): Found | undefined {
  if (!hasFlags(facts.flags)) return undefined;
  const source = findKubeconfig(facts);
  if (source === undefined) throw noKubeconfig(facts);
  return fromKubeconfig(source);
}

/** With DATASTORE_TYPE=orch alone, the rows below give access. */
function fromVariables(facts: ConnectionFacts, use: ConnectionUse): Found | undefined {
  const raw = withType(ownVariables(facts.env));
  const names = Object.keys(ownVariables(facts.env)).map((key) => key.toUpperCase());
  if (names.length === 0) return undefined;
  const from = names.join(', ');
  const decoded = decodeConnection(raw, FROM_ENVIRONMENT);
  const lacksAccess = raw['datastore_type'] === 'orch' && ORCH_KEYS.every((key) => raw[key] === undefined);
  if (!lacksAccess) return { from, decoded };
  const access = findAccess(facts, use);
  const orch = access === undefined ? undefined : orchOf(access);
  if (access === undefined || orch === undefined) throw noAccess(facts, 'Cannot use DATASTORE_TYPE=orch', use);
  const { warnings } = decoded;
  return {
    ...access,
    from: `${from} with ${access.from}`,
    decoded: { datastore: { type: 'orch', orch }, warnings },
  };
}

function fromNetconf(netconf: NetconfConnection | undefined, name: string): Found | undefined {
  if (netconf === undefined) return undefined;
  const { file, datastore } = netconf;
  return {
    from: `${name} "${file}"`,
    decoded: datastore instanceof NetplugError ? datastore : { datastore, warnings: [] },
  };
}

function fromKubeconfig(source: KubeconfigSource | undefined): Found | undefined {
  if (source === undefined) return undefined;
  const { paths, namedBy, context } = source;
  const files = `${namedBy} ${paths.map((path) => `"${path}"`).join(', ')}`;
  return orchFound(context === undefined ? files : `${files}, context "${context}"`, { kubeconfig: source });
}

function orchFound(from: string, access: Pick<OrchSettings, 'kubeconfig'>): Found {
  const orch = { orchconfig: undefined, apiRoot: undefined, nodeName: undefined, ...access };
  return { from, decoded: { datastore: { type: 'orch', orch }, warnings: [] } };
}

/** Returns the first row below the variables that gives access to the API server. */
function findAccess(facts: ConnectionFacts, use: ConnectionUse): FoundApi | undefined {
  const rows = accessRows(use);
  for (const [index, { find }] of rows.entries()) {
    const found = find(facts, use);
    if (found === undefined || orchOf(found) === undefined) continue;
    return { ...found, why: index === 0 ? SET : absences(facts, rows.slice(0, index)) };
  }
  return undefined;
}

/** Returns the access to the API server; undefined for etcd, and for an invalid configuration. */
function orchOf({ decoded }: Found): OrchSettings | undefined {
  if (decoded instanceof NetplugError) return undefined;
  return decoded.datastore.type === 'orch' ? decoded.datastore.orch : undefined;
}

function accessRows(use: ConnectionUse): readonly Row[] {
  return rowsOf(use).filter(({ source }) => !(source in GIVEN));
}

/** Reads a kubeconfig or URL without a type of datastore as the API of the orchestrator. */
function withType(raw: RawConnection): RawConnection {
  const hasKv = CONNECTION_KEYS.some((key) => ownValue(raw, key) !== undefined);
  const section = isRecord(raw['orch']) ? raw['orch'] : {};
  const hasOrch = ORCH_KEYS.some((key) => raw[key] !== undefined || section[key] !== undefined);
  return hasOrch && !hasKv ? { ...raw, datastore_type: 'orch' } : raw;
}

/** Says whose credentials the node's are, and which to use for what they may not do. */
function adviceOfNode({ homeFile }: ConnectionFacts, found: Found): string {
  const kubeconfig = homeFile?.exists === true ? homeFile.path : 'FILE';
  const others =
    orchOf(found) === undefined
      ? 'KV_ENDPOINTS with KV_CA_CERT_FILE, KV_CERT_FILE and KV_KEY_FILE'
      : `--kubeconfig ${kubeconfig}, or KUBECONFIG`;
  return `These are the credentials of the plugin on this node, which only root may read. Use those of an administrator: ${others}`;
}

function invalidNetconf({
  from,
  why,
  fault,
}: {
  readonly from: string;
  readonly why: string;
  readonly fault: NetplugError;
}): NetplugError {
  const { code, message, hint = '', facts } = fault;
  return new NetplugError(code, `Using ${from} (${why}): ${message}`, {
    hint: `${hint}${hint === '' ? '' : '. '}To use another datastore, name it with --kubeconfig FILE or KV_ENDPOINTS`,
    facts,
    cause: fault,
  });
}

function noAccess(facts: ConnectionFacts, what: string, use: ConnectionUse): NetplugError {
  return new NetplugError('netconf/needs-orchestrator', `${what}: ${absences(facts, accessRows(use))}`, {
    hint: `Name a kubeconfig with --kubeconfig FILE, KUBECONFIG or ORCHCONFIG${sudoHint(facts)}`,
  });
}

function noKubeconfig({ flags: { context }, homeFile }: ConnectionFacts): NetplugError {
  const home = homeFile === undefined ? 'HOME is not set' : `"${homeFile.path}" does not exist`;
  const problem = `there is no kubeconfig with context "${context ?? ''}": KUBECONFIG is not set, and ${home}`;
  return new NetplugError('store/config-invalid', `Cannot use the API of the orchestrator: ${problem}`, {
    hint: 'Set KUBECONFIG, or name the kubeconfig with --kubeconfig FILE',
  });
}

function sudoHint({ env }: ConnectionFacts): string {
  return (env['SUDO_USER'] ?? '') === ''
    ? ''
    : '. sudo drops variables: write them behind it, as in "sudo env KUBECONFIG=FILE netplugctl"';
}
