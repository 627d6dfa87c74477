import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import { timeLimit } from '../../../base/clock.ts';
import { untilAborted } from '../../../base/until-aborted.ts';
import type { Store } from '../../../datastore/store.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import type { Datastore, OrchSettings } from '../../../config/connection.ts';
import { readApiAccess, readConnection } from '../connection.ts';
import type { Context } from '../ports.ts';
import { type AgentFacts, askAgentFacts } from './agent-facts.ts';
import { type ConfFile, readConfFiles } from './conf-files.ts';
import { readRecords, type Records } from './records.ts';

/** Timeout for pools, which topics of the node can do without. */
const POOLS_MS = 4000;

/** Paths and addresses to examine on this machine. */
export interface Places {
  readonly confDir: string;
  /** Folders of plugins, first match wins. */
  readonly binDirs: readonly string[];
  readonly socket: string;
  /** `host:port` of the health pages. */
  readonly health: string;
}

/** The connection to the datastore, and the file, flag or variable that configures it. */
export interface FoundConnection {
  readonly datastore: Datastore;
  readonly from: string;
}

/** Facts that several topics share. Each is gathered once, on first use. */
export interface Sources {
  readonly context: Context;
  readonly places: Places;
  /** Whether to examine this machine as a node. */
  readonly includesNode: boolean;
  readonly confFiles: () => Promise<readonly ConfFile[]>;
  readonly connection: () => Promise<FoundConnection>;
  readonly store: () => Promise<Store>;
  /** @throws store/* */
  readonly records: () => Promise<Records>;
  /** Returns none when they are not available within a few seconds: a node can be examined without a datastore. */
  readonly pools: () => Promise<readonly IpPool[]>;
  readonly agent: () => Promise<AgentFacts>;
}

/** Returns sources whose store is closed with `scope`. */
export function openSources(
  context: Context,
  { places, includesNode }: Pick<Sources, 'places' | 'includesNode'>,
  scope: AsyncDisposableStack,
): Sources {
  const confFiles = once(async () => readConfFiles(places.confDir));
  const connection = once(async () => findConnection(context, places));
  const store = once(async () => scope.use(context.ports.openStore((await connection()).datastore)));
  const records = once(async () => readRecords(await store(), context.signal));
  return {
    context,
    places,
    includesNode,
    confFiles,
    connection,
    store,
    records,
    pools: async () => poolsWithinLimit(records),
    agent: once(async () => askAgentFacts(context, places)),
  };
}

/** Returns why there is no connection to the API instead of one, which with records in etcd nothing else needs. */
export async function findApiAccess({
  connection,
  context,
}: Sources): Promise<OrchSettings | { readonly why: string }> {
  try {
    const { datastore } = await connection();
    return datastore.type === 'orch' ? datastore.orch : await readApiAccess(context);
  } catch (cause) {
    if (isStoreFailure(cause)) return { why: reasonOf(cause) };
    throw cause;
  }
}

async function findConnection(context: Context, { confDir }: Places): Promise<FoundConnection> {
  const { datastore, warnings, origin } = await readConnection(context, { confDir });
  for (const warning of warnings) context.io.stderr(`warning: ${warning}\n`);
  return { datastore, from: origin.from };
}

async function poolsWithinLimit(records: () => Promise<Records>): Promise<readonly IpPool[]> {
  using limit = timeLimit(POOLS_MS);
  try {
    return (await untilAborted(records(), limit.signal)).pools;
  } catch {
    return [];
  }
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return async () => (running ??= work());
}

/** Reports whether the error means that the datastore is unusable. */
export function isStoreFailure(cause: unknown): boolean {
  return isNetplugError(
    cause,
    'store/unavailable',
    'store/refused',
    'store/config-invalid',
    'netconf/invalid',
    'netconf/needs-orchestrator',
    'cli/usage',
  );
}
