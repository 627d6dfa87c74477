import { isNetplugError } from '../../../base/errors.ts';
import { timeLimit } from '../../../base/clock.ts';
import { untilAborted } from '../../../base/until-aborted.ts';
import type { Store } from '../../../datastore/store.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { type Connection, hasConnection, readConnection } from '../connection.ts';
import type { Context } from '../ports.ts';
import { type AgentFacts, askAgentFacts } from './agent-facts.ts';
import { type ConfFile, readConfFiles } from './conf-files.ts';
import { readRecords, type Records } from './records.ts';

/** For what a topic can do without. */
const POOLS_MS = 4000;

/** Where to look on this machine. */
export interface Places {
  readonly confDir: string;
  /** Folders of plugins, first match wins. */
  readonly binDirs: readonly string[];
  readonly socket: string;
  /** `host:port` of the health pages. */
  readonly health: string;
}

/** How the datastore is reached, and which file, flag or variable says so. */
export type FoundConnection = Pick<Connection, 'datastore' | 'from'>;

/** What several topics ask for: each is asked for once, when it is first needed. */
export interface Sources {
  readonly context: Context;
  readonly places: Places;
  /** Whether this machine is a node that is to be looked at. */
  readonly looksAtNode: boolean;
  readonly confFiles: () => Promise<readonly ConfFile[]>;
  readonly connection: () => Promise<FoundConnection>;
  readonly store: () => Promise<Store>;
  /** @throws store/* */
  readonly records: () => Promise<Records>;
  /** None when they cannot be had soon: a node can be looked at without a datastore. */
  readonly pools: () => Promise<readonly IpPool[]>;
  readonly agent: () => Promise<AgentFacts>;
}

/** `scope` closes what was opened. */
export function openSources(
  context: Context,
  { places, looksAtNode }: Pick<Sources, 'places' | 'looksAtNode'>,
  scope: AsyncDisposableStack,
): Sources {
  const confFiles = once(async () => readConfFiles(places.confDir));
  const connection = once(async () => findConnection(context, confFiles));
  const store = once(async () => scope.use(context.ports.openStore((await connection()).datastore)));
  const records = once(async () => readRecords(await store(), context.signal));
  return {
    context,
    places,
    looksAtNode,
    confFiles,
    connection,
    store,
    records,
    pools: async () => poolsSoon(records),
    agent: once(async () => askAgentFacts(context, places)),
  };
}

/** What the command was told; on a node that was told nothing, what its own network configuration says. */
async function findConnection(
  context: Context,
  confFiles: () => Promise<readonly ConfFile[]>,
): Promise<FoundConnection> {
  if (!hasConnection(context)) {
    const own = (await confFiles()).find(({ netconf }) => netconf !== undefined);
    if (own?.netconf !== undefined) return { datastore: own.netconf.datastore, from: own.path };
  }
  const { datastore, warnings, from } = await readConnection(context);
  for (const warning of warnings) context.io.stderr(`warning: ${warning}\n`);
  return { datastore, from };
}

async function poolsSoon(records: () => Promise<Records>): Promise<readonly IpPool[]> {
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

/** Whether it says that the datastore cannot be had. */
export function isStoreTrouble(cause: unknown): boolean {
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
