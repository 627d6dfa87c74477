import { errnoOf } from '../../../base/errors.ts';
import { exec } from '../../../base/exec.ts';
import { isDeaf } from '../../../bgp/read-status.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import { modeOf } from '../../../routing/pool-modes.ts';
import type { Sources } from './sources.ts';
import type { Check } from '../../../checks/check.ts';
import { topic } from './topic.ts';

export interface BgpFacts {
  /** Names of pools in BGP mode. */
  readonly pools: readonly string[];
  /** Version that BIRD prints; undefined when it is not installed. */
  readonly bird: string | undefined;
  readonly sessions: NonNullable<ShownNetwork['bgp']>;
}

const OLDEST_BIRD = 2;
const DEAF =
  'Another program listens on the port of BIRD: stop it, or give BIRD another port with listenPort of a BGPConfiguration';

export const BGP_CHECKS: readonly Check<BgpFacts>[] = [
  {
    id: 'bgp/no-bird',
    severity: 'error',
    expected: 'BIRD 2, when a pool is in BGP mode',
    remedy: 'Install BIRD 2',
    command: 'apt-get install bird2',
    judge: ({ pools, bird }) =>
      pools.length === 0 || bird !== undefined
        ? []
        : [`the program "bird" is not in PATH, but BGP is the mode of ${pools.join(', ')}`],
  },
  {
    id: 'bgp/old-bird',
    severity: 'error',
    expected: 'BIRD 2, when a pool is in BGP mode',
    remedy: 'Install BIRD 2',
    command: 'apt-get install bird2',
    judge: ({ pools, bird }) => {
      const major = Number(/(\d+)\./.exec(bird ?? '')?.[1] ?? Number.NaN);
      if (pools.length === 0 || !(major < OLDEST_BIRD)) return [];
      return [bird ?? ''];
    },
  },
  {
    id: 'bgp/session-down',
    severity: 'warning',
    expected: 'established BGP sessions',
    remedy: 'Check the route to the peer, its AS number and its password',
    command: 'netplugctl node status',
    judge: ({ sessions }) =>
      sessions
        .filter(({ state }) => state !== 'Established')
        .map(({ peer, kind, state, info }) => ({
          found: `session with ${peer} (${kind}) is in state ${state}${info === '' ? '' : `: ${info}`}`,
          ...(isDeaf({ info }) ? { remedy: DEAF, command: 'ss -ltnp' } : {}),
        })),
  },
  {
    id: 'bgp/bfd-down',
    severity: 'warning',
    expected: 'BFD up beside established sessions that use it',
    remedy: 'Configure BFD on the peer too, and let UDP port 3784 pass, or 4784 to a peer behind a router',
    command: 'netplugctl node status',
    judge: ({ sessions }) =>
      sessions
        .filter(({ state, bfd = 'Up' }) => state === 'Established' && bfd !== 'Up')
        .map(
          ({ peer, kind, bfd }) =>
            `BFD of the session with ${peer} (${kind}) is in state ${String(bfd)}: a loss is noticed late`,
        ),
  },
];

export const BGP = topic({
  area: 'bgp',
  scope: 'node',
  gather: gatherBgp,
  measure: ({ bird, sessions, pools }) =>
    pools.length === 0
      ? []
      : [bird ?? '', `${String(sessions.filter(({ state }) => state === 'Established').length)} sessions established`],
  checks: BGP_CHECKS,
});

async function gatherBgp(sources: Sources, signal: AbortSignal): Promise<BgpFacts> {
  const pools = await sources.pools();
  const { network } = await sources.agent();
  return {
    pools: pools.filter((pool) => modeOf(pool).kind === 'bgp').map(({ metadata }) => `"${metadata.name}"`),
    bird: await askBird(signal),
    sessions: network?.bgp ?? [],
  };
}

async function askBird(signal: AbortSignal): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await exec('bird', ['--version'], { signal });
    return `${stdout}${stderr}`.trim();
  } catch (cause) {
    if (errnoOf(cause) !== 'ENOENT') throw cause;
    return undefined;
  }
}
