import { VERSION } from '../../../base/version.ts';
import { counted } from '../../../base/counted.ts';
import type { AgentFacts } from './agent-facts.ts';
import { type Check, topic } from './topic.ts';

export const AGENT_CHECKS: readonly Check<AgentFacts>[] = [
  {
    id: 'agent/silent',
    severity: 'error',
    expected: 'an agent that answers on its socket, where one has registered this node',
    judge: ({ silence, registeredName, hasSocket }) => {
      if (silence === undefined || (registeredName === undefined && !hasSocket)) return [];
      return [
        {
          found: silence,
          remedy: 'Start netplug-agent on this node, and see its log; pods are served without it, only slower',
        },
      ];
    },
  },
  {
    id: 'agent/absent',
    severity: 'note',
    expected: 'netplug-agent: with it calls are faster, and the network between nodes is kept',
    judge: ({ silence, registeredName, hasSocket }) => {
      if (silence === undefined || registeredName !== undefined || hasSocket) return [];
      return [{ found: 'no agent has ever registered this node', remedy: 'Start netplug-agent on this node' }];
    },
  },
  {
    id: 'agent/stale-socket',
    severity: 'warning',
    expected: 'no socket where nobody listens: calls try it first',
    judge: ({ hasSocket, silence, socket }) =>
      hasSocket && /ECONNREFUSED/.test(silence ?? '')
        ? [
            {
              found: `socket "${socket}" is left, and nobody listens`,
              remedy: 'Start netplug-agent; where none shall run, remove the socket',
              command: `rm ${socket}`,
            },
          ]
        : [],
  },
  {
    id: 'agent/left-journal',
    severity: 'warning',
    expected: 'no journal without an agent: what it says is not all in the datastore',
    judge: ({ silence, journals }) =>
      silence === undefined || journals.length === 0
        ? []
        : [
            {
              found: `${counted(journals.length, 'journal segment')} of an agent that does not answer`,
              remedy: 'Start netplug-agent, which publishes them; the next call of the runtime does so too',
            },
          ],
  },
  {
    id: 'agent/damaged-journal',
    severity: 'warning',
    expected: 'journals that can be read: what a damaged one may have handed out stays taken',
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
    expected: 'a network between nodes without problems',
    judge: ({ network, readiness }) =>
      (network?.problems ?? [])
        .filter((problem) => readiness?.reasons.some((reason) => reason.includes(problem)) !== true)
        .map((found) => ({ found, remedy: 'See the log of netplug-agent', command: 'netplugctl node status' })),
  },
  {
    id: 'agent/version',
    severity: 'warning',
    expected: 'an agent of the version of the tool',
    judge: ({ version }) =>
      version === undefined || version === VERSION
        ? []
        : [
            {
              found: `the agent is of version ${version}, the tool of version ${VERSION}`,
              remedy: 'Use the same version of both',
            },
          ],
  },
  {
    id: 'agent/health-unseen',
    severity: 'note',
    expected: 'health pages of the agent at the address the tool asks',
    judge: ({ silence, readiness, health }) =>
      silence !== undefined || readiness !== undefined
        ? []
        : [
            {
              found: `nobody answers at ${health}`,
              remedy:
                'Name the address of NETPLUG_HEALTH_ADDRESS of the agent with --health, unless it is switched off',
            },
          ],
  },
];

export const AGENT = topic({
  area: 'agent',
  scope: 'node',
  gather: async ({ agent }) => agent(),
  measure: ({ silence, version, readiness, registeredName }) =>
    silence === undefined
      ? [
          ...(registeredName === undefined ? [] : [`node ${registeredName}`]),
          ...(version === undefined ? [] : [version]),
          ...(readiness?.isReady === true ? ['ready'] : []),
        ]
      : [],
  checks: AGENT_CHECKS,
});
