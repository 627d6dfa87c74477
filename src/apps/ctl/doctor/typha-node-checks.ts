import { connect } from 'node:net';
import { reasonOf } from '../../../base/errors.ts';
import { visibleText } from '../../../base/visible-text.ts';
import type { Check } from '../../../checks/check.ts';
import { listServers } from '../../../install/cluster/server-leases.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import type { ServerEntry } from '../../../stream/handshake.ts';
import type { Sources } from './sources.ts';
import { topic } from './topic.ts';

/** Time for one server to accept a connection. */
const CONNECT_MS = 3000;

/** A connection that this machine tried to open. */
export interface TriedServer {
  readonly server: string;
  readonly address: string;
  readonly port: number;
  /** Why it could not be opened; undefined when it could. */
  readonly failure: string | undefined;
}

/** How the agent of this node follows what every node follows. */
export interface TyphaNodeFacts {
  /** Undefined where the agent does not use netplug-typha, or does not answer. */
  readonly fanOut: ShownNetwork['fanOut'];
  /** Undefined where the agent has a server, or the Leases cannot be read. */
  readonly tried: readonly TriedServer[] | undefined;
}

const ELSEWHERE = ['typha/pod-cidr-mismatch', 'stream/format-unsupported'];

export const TYPHA_NODE_CHECKS: readonly Check<TyphaNodeFacts>[] = [
  {
    id: 'typha/unreachable',
    severity: 'error',
    expected: 'a server of netplug-typha that serves this node, where its agent uses them',
    remedy: 'Open TCP port 5473 between nodes, in firewalls, security groups and policies of host endpoints',
    judge: ({ fanOut, tried }) => {
      if (fanOut === undefined || fanOut.server !== undefined || ELSEWHERE.includes(fanOut.lastCode ?? '')) return [];
      const why = visibleText(fanOut.lastError ?? 'none was found');
      if (tried === undefined) return [`no server serves this node: ${why}`];
      if (tried.length === 0)
        return [
          {
            found: 'no server serves this node, and none has a Lease',
            remedy: 'Look why no pod of netplug-typha runs; "netplugctl cluster typha off" does without',
            command: 'netplugctl typha status',
          },
        ];
      const failed = tried.filter(({ failure }) => failure !== undefined);
      if (failed.length > 0)
        return failed.map(
          ({ server, address, port, failure }) =>
            `this machine cannot connect to ${visibleText(server)} at ${address}, port ${String(port)}: ${failure ?? ''}`,
        );
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
    judge: ({ fanOut }) =>
      fanOut?.server === undefined && fanOut?.lastCode === 'typha/pod-cidr-mismatch'
        ? [visibleText(fanOut.lastError ?? '')]
        : [],
  },
  {
    id: 'typha/format',
    severity: 'error',
    expected: 'servers of netplug-typha of the release of the agent, of the one before or of the one after',
    remedy: 'Finish the upgrade: servers first, then agents',
    command: 'netplugctl upgrade plan',
    judge: ({ fanOut }) =>
      fanOut?.server === undefined && fanOut?.lastCode === 'stream/format-unsupported'
        ? [visibleText(fanOut.lastError ?? '')]
        : [],
  },
];

export const TYPHA_NODE = topic({
  area: 'typha',
  scope: 'node',
  gather: gatherTyphaNode,
  measure: ({ fanOut }) => (fanOut?.server === undefined ? [] : [`served by ${visibleText(fanOut.server)}`]),
  checks: TYPHA_NODE_CHECKS,
});

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
  const servers = await listServers(api, signal);
  return await Promise.all(
    servers.flatMap(({ entry }) => entry.addresses.map(async (address) => tryServer(entry, address))),
  );
}

async function tryServer({ name, port }: ServerEntry, address: string): Promise<TriedServer> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const socket = connect({ host: address, port, timeout: CONNECT_MS });
  socket.once('connect', () => resolve(undefined));
  socket.once('timeout', () => resolve(`no answer within ${String(CONNECT_MS / 1000)} s`));
  socket.once('error', (cause) => resolve(reasonOf(cause)));
  const failure = await promise;
  socket.destroy();
  return { server: name, address, port, failure };
}
