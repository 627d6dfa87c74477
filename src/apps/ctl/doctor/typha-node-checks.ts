import { connect } from 'node:net';
import type { ErrorCode } from '../../../base/error-codes.ts';
import { reasonOf } from '../../../base/errors.ts';
import { visibleText } from '../../../base/visible-text.ts';
import type { Check } from '../../../checks/check.ts';
import { listServers } from '../../../install/cluster/server-leases.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import type { ServerEntry } from '../../../stream/handshake.ts';
import { currentServers } from '../../../stream/server-lease.ts';
import type { Sources } from './sources.ts';
import { topic } from './topic.ts';

/** Time for one server to accept a connection. */
const CONNECT_MS = 3000;

/** A server that renews its Lease, to which this machine tried to connect. */
export interface TriedServer {
  readonly server: string;
  readonly port: number;
  /** Why none of its addresses accepts a connection, by address; empty when one does. */
  readonly failures: Readonly<Record<string, string>>;
}

/** How the agent of this node follows what every node follows. */
export interface TyphaNodeFacts {
  /** Undefined where the agent does not use netplug-typha, or does not answer. */
  readonly fanOut: ShownNetwork['fanOut'];
  /** Undefined where the agent has a server, or the Leases cannot be read. */
  readonly tried: readonly TriedServer[] | undefined;
}

const POD_CIDR: ErrorCode = 'typha/pod-cidr-mismatch';
const FORMAT: ErrorCode = 'stream/format-unsupported';

export const TYPHA_NODE_CHECKS: readonly Check<TyphaNodeFacts>[] = [
  {
    id: 'typha/unreachable',
    severity: 'error',
    expected: 'a server of netplug-typha that serves this node, where its agent uses them',
    remedy: 'Open TCP port 5473 between nodes, in firewalls, security groups and policies of host endpoints',
    judge: ({ fanOut, tried }) => {
      if (
        fanOut === undefined ||
        fanOut.server !== undefined ||
        [POD_CIDR, FORMAT].some((code) => code === fanOut.lastCode)
      )
        return [];
      const why = visibleText(fanOut.lastError ?? 'none was found');
      if (tried === undefined) return [`no server serves this node: ${why}`];
      if (tried.length === 0)
        return [
          {
            found: 'no server serves this node, and none renews a Lease',
            remedy: 'Look why no pod of netplug-typha runs; "netplugctl cluster typha off" does without',
            command: 'netplugctl typha status',
          },
        ];
      const failed = tried.flatMap(({ server, port, failures }) =>
        Object.entries(failures).map(
          ([address, failure]) =>
            `this machine cannot connect to ${visibleText(server)} at ${address}, port ${String(port)}: ${failure}; the agent says: ${why}`,
        ),
      );
      if (failed.length > 0) return failed;
      return [
        {
          found: `every server accepts connections of this machine, and none serves its agent: ${why}`,
          remedy: 'See the log of netplug-agent, and those of the servers',
          command: 'netplugctl node status',
        },
      ];
    },
  },
  {
    id: 'typha/pod-cidr-mismatch',
    severity: 'error',
    expected: 'the same USE_POD_CIDR on netplug-typha and on the agent',
    remedy: 'Set USE_POD_CIDR on both, or on neither; the operator and the manifests do so',
    judge: (facts) => refusalsBy(POD_CIDR, facts),
  },
  {
    id: 'typha/format',
    severity: 'error',
    expected: 'servers of netplug-typha of the release of the agent, of the one before or of the one after',
    remedy: 'Finish the upgrade: servers first, then agents',
    command: 'netplugctl upgrade plan',
    judge: (facts) => refusalsBy(FORMAT, facts),
  },
];

export const TYPHA_NODE = topic({
  area: 'typha',
  scope: 'node',
  gather: gatherTyphaNode,
  measure: ({ fanOut }) => (fanOut?.server === undefined ? [] : [`served by ${visibleText(fanOut.server)}`]),
  checks: TYPHA_NODE_CHECKS,
});

/** Returns what the last server has said, if it refused the agent for that reason. */
function refusalsBy(code: ErrorCode, { fanOut }: TyphaNodeFacts): readonly string[] {
  const isRefused = fanOut?.server === undefined && fanOut?.lastCode === code;
  return isRefused ? [visibleText(fanOut.lastError ?? '')] : [];
}

async function gatherTyphaNode(sources: Sources, signal: AbortSignal): Promise<TyphaNodeFacts> {
  const { network } = await sources.agent();
  const fanOut = network?.fanOut;
  if (fanOut === undefined || fanOut.server !== undefined) return { fanOut, tried: undefined };
  return { fanOut, tried: await tryServers(sources, signal).catch(() => undefined) };
}

async function tryServers(sources: Sources, signal: AbortSignal): Promise<readonly TriedServer[] | undefined> {
  const { datastore } = await sources.connection();
  if (datastore.type !== 'orch') return undefined;
  await using api = sources.context.ports.openApi(datastore.orch);
  const servers = currentServers(await listServers(api, signal)).filter(({ isLeaving }) => !isLeaving);
  return await Promise.all(servers.map(tryServer));
}

/** Agents take any address that answers. */
async function tryServer({ name, port, addresses }: ServerEntry): Promise<TriedServer> {
  const tried = await Promise.all(addresses.map(async (address) => [address, await whyNot(address, port)] as const));
  const failures = tried.flatMap(([address, why]) => (why === undefined ? [] : [[address, why] as const]));
  const isReached = failures.length < tried.length;
  return { server: name, port, failures: isReached ? {} : Object.fromEntries(failures) };
}

/** Returns why no connection opens; undefined when one does. */
async function whyNot(address: string, port: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const socket = connect({ host: address, port, timeout: CONNECT_MS });
  socket.once('connect', () => resolve(undefined));
  socket.once('timeout', () => resolve(`no answer within ${String(CONNECT_MS / 1000)} s`));
  socket.once('error', (cause) => resolve(reasonOf(cause)));
  const failure = await promise;
  socket.destroy();
  return failure;
}
