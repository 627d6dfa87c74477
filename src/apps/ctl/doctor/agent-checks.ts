import { VERSION } from '../../../base/version.ts';
import { counted } from '../../../base/counted.ts';
import type { AgentFacts } from './agent-facts.ts';
import { type Check, topic } from './topic.ts';

export const AGENT_CHECKS: readonly Check<AgentFacts>[] = [
  {
    id: 'agent/silent',
    severity: 'error',
    expected: 'an agent that answers on its socket, once an agent has registered this node',
    judge: ({ unreachable, registeredName, hasSocket }) => {
      if (unreachable === undefined || (registeredName === undefined && !hasSocket)) return [];
      return [
        {
          found: unreachable,
          remedy: 'Start netplug-agent on this node, and read its log. Without it calls still work, but are slower',
        },
      ];
    },
  },
  {
    id: 'agent/absent',
    severity: 'note',
    expected: 'netplug-agent, which makes calls faster and configures the network between nodes',
    judge: ({ unreachable, registeredName, hasSocket }) => {
      if (unreachable === undefined || registeredName !== undefined || hasSocket) return [];
      return [{ found: 'no agent has ever registered this node', remedy: 'Start netplug-agent on this node' }];
    },
  },
  {
    id: 'agent/stale-socket',
    severity: 'warning',
    expected: 'no socket without a listening agent, since each call tries it first',
    judge: ({ hasSocket, unreachable, socket }) =>
      hasSocket && /ECONNREFUSED/.test(unreachable ?? '')
        ? [
            {
              found: `no process listens on socket "${socket}"`,
              remedy: 'Start netplug-agent; if no agent should run here, remove the socket',
              command: `rm ${socket}`,
            },
          ]
        : [],
  },
  {
    id: 'agent/left-journal',
    severity: 'warning',
    expected: 'no journal without an agent, since its entries may not be in the datastore yet',
    judge: ({ unreachable, journals }) =>
      unreachable === undefined || journals.length === 0
        ? []
        : [
            {
              found: `${counted(journals.length, 'journal segment')} of an agent that does not answer`,
              remedy: 'Start netplug-agent, which replays the journal; the next call of the runtime replays it too',
            },
          ],
  },
  {
    id: 'agent/damaged-journal',
    severity: 'warning',
    expected: 'readable journals; addresses that a damaged journal may have assigned are not assigned again',
    judge: ({ damagedJournals }) =>
      damagedJournals.map((path) => ({
        found: `damaged journal "${path}"`,
        remedy: 'Compare with "netplugctl ipam check", then delete the file and restart netplug-agent',
        command: `rm ${path}`,
      })),
  },
  {
    id: 'agent/not-ready',
    severity: 'error',
    expected: 'an agent that is ready',
    judge: ({ readiness }) =>
      (readiness?.isReady === false ? readiness.reasons : []).map((found) => ({
        found,
        remedy: 'See the log of netplug-agent',
        command: 'netplugctl node status',
      })),
  },
  {
    id: 'agent/network',
    severity: 'error',
    expected: 'a network between nodes that the agent reports without problems',
    judge: ({ network, readiness }) =>
      (network?.problems ?? [])
        .filter((problem) => readiness?.reasons.some((reason) => reason.includes(problem)) !== true)
        .map((found) => ({ found, remedy: 'See the log of netplug-agent', command: 'netplugctl node status' })),
  },
  {
    id: 'agent/version',
    severity: 'warning',
    expected: 'an agent of the same version as netplugctl',
    judge: ({ version }) =>
      version === undefined || version === VERSION
        ? []
        : [
            {
              found: `the agent has version ${version}, netplugctl has version ${VERSION}`,
              remedy: 'Use the same version of both',
            },
          ],
  },
  {
    id: 'agent/health-unseen',
    severity: 'note',
    expected: 'health pages of the agent at the address of --health',
    judge: ({ unreachable, readiness, health }) =>
      unreachable !== undefined || readiness !== undefined
        ? []
        : [
            {
              found: `no answer from ${health}`,
              remedy:
                'Pass the address in NETPLUG_HEALTH_ADDRESS of the agent with --health, unless the pages are switched off',
            },
          ],
  },
];

export const AGENT = topic({
  area: 'agent',
  scope: 'node',
  gather: async ({ agent }) => agent(),
  measure: ({ unreachable, version, readiness, registeredName }) =>
    unreachable === undefined
      ? [
          ...(registeredName === undefined ? [] : [`node ${registeredName}`]),
          ...(version === undefined ? [] : [version]),
          ...(readiness?.isReady === true ? ['ready'] : []),
        ]
      : [],
  checks: AGENT_CHECKS,
});
