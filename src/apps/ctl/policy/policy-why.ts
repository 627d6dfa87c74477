import { NetplugError } from '../../../base/errors.ts';
import type { IdentityMode } from '../../../policy/feed/messages.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { sameAddress } from '../../../net/address.ts';
import { type PacketContent, requestContent } from '../../../policy/packet-content.ts';
import { findNetconf } from '../explain/find-netconf.ts';
import { thisNode } from '../explain/run-plan-add.ts';
import type { Context, Status } from '../ports.ts';
import { findEnd, type NamedEnd } from './connection-ends.ts';
import {
  type AskedDestination,
  behindCaches,
  findService,
  findServiceAt,
  type FoundDestination,
  SERVICE,
} from './find-destination.ts';
import { floatingAddresses } from './floating-addresses.ts';
import type { AddressPlan } from './packet-way.ts';
import {
  type AskedProtocol,
  type ConnectionQuestion,
  explainConnections,
  type ExplainedConnection,
  type ExplainedConnections,
  judgeConnections,
  type JudgedConnection,
} from './explain-connection.ts';
import { impossible, probeConnection } from './probe-connection.ts';
import type { DocumentOutput } from '../common-options.ts';
import { renderDocument } from '../render-document.ts';
import { readDnsCaches } from './read-dns-caches.ts';
import { readIfKnown, serviceReader, withClusterApi } from './read-services.ts';
import { readNodePolicySettings } from './read-node-settings.ts';
import { withPolicyState } from './read-policy-state.ts';
import { renderConnections } from './render-connections.ts';

const DNS_PORT = 53;

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
  return withPolicyState(context, async (view, store, records) => {
    const [{ resources: nodes }, { resources: pools }] = await Promise.all([
      store.listResources('Node', signal),
      store.listResources('IPPool', signal),
    ]);
    const plan: AddressPlan = { view, nodes, pools, floating: floatingAddresses(records) };
    const source = findEnd(plan, from);
    const found = await findDestination(context, plan, { text: to, from: source, protocol, port });
    const destination = found.to;
    const { identity, ...settings } = await readNodePolicySettings(store, view, signal);
    const question: ConnectionQuestion = {
      plan,
      from: source,
      to: destination,
      protocol,
      port: found.port,
      ...(content === undefined ? {} : { content: asSeenBy(content, identity(destination.node ?? '')) }),
      ...(content?.kind === 'request' ? { request: { method: content.method, path: asked.path ?? '/' } } : {}),
      ...settings,
    };
    const explained = explainConnections(question);
    if (!haveFamilyInCommon(source, destination)) {
      throw new NetplugError('cli/usage', `Cannot connect ${from} to ${to}: they have no IP family in common`, {
        hint: 'Choose two ends with IPv4 addresses, or two with IPv6 addresses',
      });
    }
    const probed = probe ? await withProbes(context, question, explained) : explained;
    io.stdout(renderDocument(probed, output, renderConnections));
    const isAsSaid = probed.connections.every((each) => each.probe === undefined || each.probe.outcome === 'agrees');
    return explained.verdict === 'allow' && isAsSaid ? 0 : 1;
  });
}

function haveFamilyInCommon(from: NamedEnd, to: NamedEnd): boolean {
  // A Service may have no endpoint at all.
  if (to.kind === 'service' && to.addresses.length === 0) return true;
  return from.addresses.some(({ address: a }) => to.addresses.some(({ address: b }) => a.family === b.family));
}

/** Follows Services where the destination is one, or has its address. @throws resource/not-found, cli/usage, store/* */
async function findDestination(
  context: Context,
  plan: AddressPlan,
  asked: AskedDestination,
): Promise<FoundDestination> {
  const cached = async (api: OrchApi, found: FoundDestination): Promise<FoundDestination> => {
    const caches = found.port === DNS_PORT ? await readDnsCaches(api, context.signal) : [];
    return behindCaches(found, { source: asked.from, caches });
  };
  if (asked.text.startsWith(SERVICE))
    return withClusterApi(context, async (api) =>
      cached(api, await findService(plan, asked, serviceReader(api, context))),
    );
  const end = findEnd(plan, asked.text);
  if (end.kind === 'pod') return { to: end, port: asked.port };
  const read = await readIfKnown(context, async (api) =>
    cached(api, await findServiceAt(plan, asked, { end, services: serviceReader(api, context) })),
  );
  if ('value' in read) return read.value;
  const why = read.unknown === undefined ? [] : [`whether a Service has the address is not known: ${read.unknown}`];
  return { to: { ...end, notes: [...end.notes, ...why] }, port: asked.port };
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

/** Where certificates alone say who sent a request, a request without one has no sender, whatever its address. */
function asSeenBy(content: PacketContent, identity: IdentityMode): PacketContent {
  const isNobody = identity === 'Certificate' && content.kind === 'request' && content.peer === undefined;
  return isNobody ? { ...content, peer: 'nobody' } : content;
}

/** Adds what the kernel of this node does with a packet of each connection. */
async function withProbes(
  context: Context,
  question: ConnectionQuestion,
  explained: ExplainedConnections,
): Promise<ExplainedConnections> {
  const { ports, signal } = context;
  if (ports.host.uid !== 0) throw impossible('the command does not run as root', 'Run it as root, on a node');
  const node = thisNode(context, (await findNetconf(ports.plugin.confDir))?.config);
  const probe = ports.openPacketProbe();
  const connections: ExplainedConnection[] = [];
  const { protocol, plan } = question;
  const all = judgeConnections(question);
  for (const [index, connection] of all.entries()) {
    const said = explained.connections[index];
    if (said === undefined) continue;
    const sendable = isOneOfSeveral(connection, all) ? toBackend(connection) : connection;
    if (sendable === undefined) {
      connections.push({
        ...said,
        notes: [...said.notes, 'not probed: kube-proxy chooses the backend of each packet'],
      });
      continue;
    }
    const followed = await probeConnection(probe, { view: plan.view, node, connection: sendable, protocol }, signal);
    connections.push({ ...said, probe: followed });
  }
  return { ...explained, connections };
}

/** Reports whether what the packet names leads to other backends, too. */
function isOneOfSeveral({ leaving: { sent }, source }: JudgedConnection, all: readonly JudgedConnection[]): boolean {
  if (sent === undefined) return false;
  const isSame = (each: JudgedConnection): boolean =>
    each.leaving.sent !== undefined &&
    sameAddress(each.leaving.sent.destination, sent.destination) &&
    sameAddress(each.source.address, source.address);
  return all.filter(isSame).length > 1;
}

/** Returns the connection as it is after translation; undefined where such a packet would not leave its pod. */
function toBackend(connection: JudgedConnection): JudgedConnection | undefined {
  const { source, destination, leaving } = connection;
  if (source.pod !== undefined && source.pod.key === destination.pod?.key) return undefined;
  return { ...connection, leaving: { packet: leaving.packet } };
}
