import { timeLimit } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Datastore } from '../../../config/connection.ts';
import { findConnection } from '../../../config/choose-connection.ts';
import { openAdmitted, readConnectionFacts } from '../connection.ts';
import { findNetconf } from '../explain/find-netconf.ts';
import { retireFrom } from '../node/remove-node.ts';
import type { Context } from '../ports.ts';
import type { Report } from './install-report.ts';

const RELEASE_MS = 60_000;

/** The name of this node, and its datastore. */
export interface RegisteredNode {
  readonly node: NodeName;
  /** Whether the agent or a network configuration gives the name; otherwise it is the host name. */
  readonly isRegistered: boolean;
  /** Undefined when neither the command nor a network configuration names one. */
  readonly datastore: Datastore | undefined;
}

/** Reads the registration. To be called before the network configuration is removed. */
export async function readRegistration(context: Context): Promise<RegisteredNode> {
  const { ports } = context;
  const netconf = await findNetconf(ports.plugin.confDir).catch(() => undefined);
  const name = ports.readRegisteredName() ?? netconf?.config.nodename;
  return {
    node: (name ?? ports.hostname) as NodeName, // validated by the agent
    isRegistered: name !== undefined || netconf !== undefined,
    datastore: findConnection(await readConnectionFacts(context), 'this-node')?.datastore,
  };
}

/**
 * Removes the records of the node from the datastore. A failure is only a warning, because the host is clean without
 * that.
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
    if (isRegistered) report.warn(notReleased(node, 'no connection is configured'));
    return;
  }
  using limit = timeLimit(RELEASE_MS);
  const limited = { ...context, signal: AbortSignal.any([signal, limit.signal]) };
  try {
    await using store = await openAdmitted(limited, datastore, mode === 'dry-run' ? 'ask-version' : 'write');
    const { summary, problems } = await retireFrom(limited, { store, type: datastore.type, node, mode });
    for (const problem of problems) report.warn(problem);
    if (summary !== undefined) report.step({ kind: 'node', subject: node, done: summary });
  } catch (cause) {
    signal.throwIfAborted();
    report.warn(notReleased(node, reasonOf(cause)));
  }
}

function notReleased(node: NodeName, reason: string): string {
  return `addresses of node "${node}" stay in the datastore (${reason}); run "netplugctl node remove ${node}" on a machine that reaches the datastore`;
}
