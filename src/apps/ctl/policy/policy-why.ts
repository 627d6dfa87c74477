import { NetplugError } from '../../../base/errors.ts';
import type { IdentityMode } from '../../../policy/feed/messages.ts';
import { type PacketContent, requestContent } from '../../../policy/packet-content.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import { findNetconf } from '../explain/find-netconf.ts';
import { thisNode } from '../explain/run-plan-add.ts';
import type { Context, Status } from '../ports.ts';
import { findEnd, routeBetween } from './connection-ends.ts';
import {
  type AskedProtocol,
  type ConnectionQuestion,
  explainConnections,
  type ExplainedConnection,
  type ExplainedConnections,
  judgeConnections,
} from './explain-connection.ts';
import { impossible, probeConnection } from './probe-connection.ts';
import type { DocumentOutput } from '../common-options.ts';
import { renderDocument } from '../render-document.ts';
import { readNodePolicySettings } from './read-node-settings.ts';
import { withPolicyState } from './read-policy-state.ts';
import { renderConnections } from './render-connections.ts';

export interface PolicyWhyOptions {
  readonly port: number | undefined;
  readonly protocol: AskedProtocol;
  readonly method: string | undefined;
  readonly path: string | undefined;
  /** `NAMESPACE/NAME`. */
  readonly account: string | undefined;
  /** Whether to compare the answer with what the kernel of this node does with a packet. */
  readonly probe: boolean;
  readonly output: DocumentOutput;
}

/**
 * Prints whether policies allow connections from one end to another. Returns status 1 when they deny, or the kernel does not do
 * what they say. @throws cli/usage, policy/probe-impossible
 */
export async function policyWhy(
  context: Context,
  { from, to }: { readonly from: string; readonly to: string },
  { port, protocol, probe, output, ...asked }: PolicyWhyOptions,
): Promise<Status> {
  const { io, signal } = context;
  const content = contentOf(asked, protocol);
  if (protocol === 'ICMP' && port !== undefined) {
    throw new NetplugError('cli/usage', 'Cannot use --port with ICMP: its packets have no ports', {
      hint: 'Leave --port out',
    });
  }
  if (probe && content !== undefined) {
    throw new NetplugError(
      'cli/usage',
      'Cannot use --probe with --method, --path or --account: a packet is no request',
      {
        hint: 'Leave --probe out, or ask about the connection alone',
      },
    );
  }
  return withPolicyState(context, async (view, store) => {
    const [{ resources: nodes }, { resources: pools }] = await Promise.all([
      store.listResources('Node', signal),
      store.listResources('IPPool', signal),
    ]);
    const [source, destination] = [findEnd({ view, nodes }, from), findEnd({ view, nodes }, to)];
    const { identity, ...settings } = await readNodePolicySettings(store, view, signal);
    const question: ConnectionQuestion = {
      from: source,
      to: destination,
      protocol,
      port,
      ...(content === undefined ? {} : { content: asSeenBy(content, identity(destination.node ?? '')) }),
      ...(content?.kind === 'request' ? { request: { method: content.method, path: asked.path ?? '/' } } : {}),
      ...settings,
      route: (...ends) => routeBetween({ view, nodes, pools }, ...ends),
    };
    const explained = explainConnections(view, question);
    if (explained.connections.length === 0) {
      throw new NetplugError('cli/usage', `Cannot connect ${from} to ${to}: they have no IP family in common`, {
        hint: 'Choose two ends with IPv4 addresses, or two with IPv6 addresses',
      });
    }
    const probed = probe ? await withProbes(context, { view, question, explained }) : explained;
    io.stdout(renderDocument(probed, output, renderConnections));
    const isAsSaid = probed.connections.every((each) => each.probe === undefined || each.probe.outcome === 'agrees');
    return explained.verdict === 'allow' && isAsSaid ? 0 : 1;
  });
}

/** @throws cli/usage for a request that cannot be */
function contentOf(
  { method, path, account }: Pick<PolicyWhyOptions, 'method' | 'path' | 'account'>,
  protocol: AskedProtocol,
): PacketContent | undefined {
  if (method === undefined && path === undefined && account === undefined) return undefined;
  if (protocol !== 'TCP')
    throw new NetplugError(
      'cli/usage',
      `Cannot use --method, --path and --account with ${protocol}: requests need TCP`,
      {
        hint: 'Leave --protocol out',
      },
    );
  const [namespace = '', name = '', ...more] = account?.split('/') ?? [];
  if (account !== undefined && (namespace === '' || name === '' || more.length > 0))
    throw new NetplugError('cli/usage', `Cannot use --account ${account}: it is no account`, {
      hint: 'Give namespace and name, such as "--account shop/gateway"',
    });
  return requestContent(method ?? 'GET', path ?? '/', account === undefined ? undefined : { namespace, name });
}

/** Where certificates alone say who sent a request, one without is from nobody, whatever its address. */
function asSeenBy(content: PacketContent, identity: IdentityMode): PacketContent {
  const isNobody = identity === 'Certificate' && content.kind === 'request' && content.peer === undefined;
  return isNobody ? { ...content, peer: 'nobody' } : content;
}

/** Adds what the kernel of this node does with a packet of each connection. */
async function withProbes(
  context: Context,
  {
    view,
    question,
    explained,
  }: { readonly view: PolicyView; readonly question: ConnectionQuestion; readonly explained: ExplainedConnections },
): Promise<ExplainedConnections> {
  const { ports, signal } = context;
  if (ports.host.uid !== 0) throw impossible('the command does not run as root', 'Run it as root, on a node');
  const node = thisNode(context, (await findNetconf(ports.plugin.confDir))?.config);
  const probe = ports.openPacketProbe();
  const connections: ExplainedConnection[] = [];
  for (const [index, connection] of judgeConnections(view, question).entries()) {
    const { protocol, port } = question;
    const followed = await probeConnection(probe, { view, node, connection, protocol, port }, signal);
    const said = explained.connections[index];
    if (said !== undefined) connections.push({ ...said, probe: followed });
  }
  return { ...explained, connections };
}
