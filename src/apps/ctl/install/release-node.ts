import { timeLimit } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Datastore } from '../../../config/connection.ts';
import { hasConnection, openAdmitted, readConnection } from '../connection.ts';
import { findNetconf } from '../explain/find-netconf.ts';
import { retireFrom } from '../node/remove-node.ts';
import type { Context } from '../ports.ts';
import type { Report } from './install-report.ts';

const RELEASE_MS = 60_000;

/** Who this node is in which datastore. */
export interface RegisteredNode {
  readonly node: NodeName;
  /** Whether something on the host says so. */
  readonly isRegistered: boolean;
  /** Undefined where neither the command nor a network configuration names one. */
  readonly datastore: Datastore | undefined;
}

/** Reads it while the network configuration is still there. */
export async function readRegistration(context: Context): Promise<RegisteredNode> {
  const { ports } = context;
  const netconf = await findNetconf(ports.plugin.confDir).catch(() => undefined);
  const name = ports.readRegisteredName() ?? netconf?.config.nodename;
  return {
    node: (name ?? ports.hostname) as NodeName, // as the agent has it, which checked it
    isRegistered: name !== undefined || netconf !== undefined,
    datastore: hasConnection(context) ? (await readConnection(context)).datastore : netconf?.config.datastore,
  };
}

/**
 * Gives back what the node holds in the datastore, and its record there. A host is clean without that too: what keeps it
 * from being done is a warning.
 */
export async function releaseNode(
  context: Context,
  {
    mode,
    registration: { node, isRegistered, datastore },
  }: { readonly mode: Mode; readonly registration: RegisteredNode },
  report: Report,
): Promise<void> {
  const { signal } = context;
  if (datastore === undefined) {
    if (isRegistered) report.warn(elsewhere(node, 'no connection is configured'));
    return;
  }
  using limit = timeLimit(RELEASE_MS);
  const limited = { ...context, signal: AbortSignal.any([signal, limit.signal]) };
  try {
    await using store = await openAdmitted(limited, datastore, mode === 'rehearse' ? 'ask-version' : 'write');
    const { summary, problems } = await retireFrom(limited, { store, type: datastore.type, node, mode });
    for (const problem of problems) report.warn(problem);
    if (summary !== undefined) report.step({ kind: 'node', subject: node, done: summary });
  } catch (cause) {
    signal.throwIfAborted();
    report.warn(elsewhere(node, reasonOf(cause)));
  }
}

function elsewhere(node: NodeName, reason: string): string {
  return `addresses of node "${node}" stay in the datastore (${reason}); run "netplugctl node remove ${node}" where it can be reached`;
}
