import { VERSION } from '../../../base/version.ts';
import { counted } from '../../../base/counted.ts';
import type { AgentFacts } from './agent-facts.ts';
import type { Check, Fault } from '../../../checks/check.ts';
import { FIREWALL_SEVERITIES } from '../../../install/host/firewall/judge-firewall.ts';
import type { NodeSeverity } from '../../../model/node-report.ts';
import { topic } from './topic.ts';

export const AGENT_CHECKS: readonly Check<AgentFacts>[] = [
  {
    id: 'agent/silent',
    severity: 'error',
    expected: 'an agent that answers on its socket, once an agent has registered this node',
    remedy: 'Start netplug-agent on this node, and read its log. Without it calls still work, but are slower',
    judge: ({ unreachable, registeredName, hasSocket }) => {
      if (unreachable === undefined || (registeredName === undefined && !hasSocket)) return [];
      return [unreachable];
    },
  },
  {
    id: 'agent/absent',
    severity: 'note',
    expected: 'netplug-agent, which makes calls faster and configures the network between nodes',
    remedy: 'Start netplug-agent on this node',
    judge: ({ unreachable, registeredName, hasSocket }) => {
      if (unreachable === undefined || registeredName !== undefined || hasSocket) return [];
      return ['no agent has ever registered this node'];
    },
  },
  {
    id: 'agent/stale-socket',
    severity: 'warning',
    expected: 'no socket without a listening agent, since each call tries it first',
    remedy: 'Start netplug-agent; if no agent should run here, remove the socket',
    judge: ({ hasSocket, unreachable, socket }) =>
      hasSocket && /ECONNREFUSED/.test(unreachable ?? '')
        ? [{ found: `no process listens on socket "${socket}"`, command: `rm ${socket}` }]
        : [],
  },
  {
    id: 'agent/left-journal',
    severity: 'warning',
    expected: 'no journal without an agent, since its entries may not be in the datastore yet',
    remedy: 'Start netplug-agent, which replays the journal; the next call of the runtime replays it too',
    judge: ({ unreachable, journals }) =>
      unreachable === undefined || journals.length === 0
        ? []
        : [`${counted(journals.length, 'journal segment')} of an agent that does not answer`],
  },
  {
    id: 'agent/damaged-journal',
    severity: 'warning',
    expected: 'readable journals; addresses that a damaged journal may have assigned are not assigned again',
    remedy: 'Compare with "netplugctl ipam check", then delete the file and restart netplug-agent',
    judge: ({ damagedJournals }) =>
      damagedJournals.map((path) => ({ found: `damaged journal "${path}"`, command: `rm ${path}` })),
  },
  {
    id: 'agent/not-ready',
    severity: 'error',
    expected: 'an agent that is ready',
    remedy: 'See the log of netplug-agent',
    command: 'netplugctl node status',
    judge: ({ readiness }) => (readiness?.isReady === false ? readiness.reasons : []).map((found) => found),
  },
  {
    id: 'agent/network',
    severity: 'error',
    expected: 'a node of which the agent reports no error',
    remedy: 'See the log of netplug-agent',
    command: 'netplugctl node status',
    judge: (facts) => unsaid(facts, 'error'),
  },
  {
    id: 'agent/warnings',
    severity: 'warning',
    expected: 'a node of which the agent reports no warning',
    remedy: 'See the log of netplug-agent',
    command: 'netplugctl node status',
    judge: (facts) => unsaid(facts, 'warning'),
  },
  {
    id: 'agent/version',
    severity: 'warning',
    expected: 'an agent of the same version as netplugctl',
    remedy: 'Use the same version of both',
    judge: ({ version }) =>
      version === undefined || version === VERSION
        ? []
        : [`the agent has version ${version}, netplugctl has version ${VERSION}`],
  },
  {
    id: 'agent/health-unseen',
    severity: 'note',
    expected: 'health pages of the agent at the address of --health',
    remedy: 'Pass the address in NETPLUG_HEALTH_ADDRESS of the agent with --health, unless the pages are switched off',
    judge: ({ unreachable, readiness, health }) =>
      unreachable !== undefined || readiness !== undefined ? [] : [`no answer from ${health}`],
  },
];

/**
 * Returns the problems that are not among the reasons why the agent is not ready. Those of the firewall are left out: the doctor
 * judges it itself, and the agent has looked some seconds ago.
 */
function unsaid({ network, readiness }: AgentFacts, severity: NodeSeverity): readonly Fault[] {
  return (network?.problems ?? [])
    .filter((each) => each.severity === severity && !Object.hasOwn(FIREWALL_SEVERITIES, each.code))
    .filter(({ text }) => readiness?.reasons.some((reason) => reason.includes(text)) !== true)
    .map(({ text, remedy }) => ({ found: text, ...(remedy === undefined ? {} : { remedy }) }));
}

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
