import { ownValue } from '../../../base/own-value.ts';
import { RECOMMENDED_KINDS } from '../../../policy/reach/recommend-policies.ts';
import { choice, type Command, command, flagOption, notAllowed, one, textLike, value } from '../command.ts';
import { DOCUMENT_OUTPUT, SOCKET } from '../common-options.ts';
import { policyDenied, policyFlows } from './policy-flows.ts';
import { policyRecommend } from './policy-recommend.ts';
import { FLOW_FILES } from './read-flow-files.ts';

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 };
const KEPT_SECONDS = 3600;
const OPTIONS = {
  since: value('time', 'only flows seen in the last so many s, m or h, at most 1h (default: 10m)', { read: seconds }),
  pod: value('namespace/name', 'only flows of which this pod is an end', {
    read: textLike(/^[^/]+\/[^/]+$/, 'Allowed is NAMESPACE/POD.'),
  }),
  node: value('node', 'ask the agent of this node, which only the node itself can'),
  allNodes: flagOption('say how to ask every node: agents have no port'),
  socket: SOCKET,
  output: DOCUMENT_OUTPUT,
};
const NAMESPACE = one('namespace', 'namespace of the policies');

export const FLOW_COMMANDS: readonly Command[] = [
  command({
    path: ['policy', 'denied'],
    summary: 'Lists connections of pods of this node that policies denied.',
    options: {
      ...OPTIONS,
      logged: flagOption('list what Log rules matched instead'),
      staged: flagOption('list what staged policies matched instead'),
    },
    details: `
Asks the agent of this node; does not read the datastore. Shows each connection with the rule that
decided, and the command that explains it. The agent keeps the last hour. The kernel reports at most 10
packets per second and rule, so the number of a connection is a sample; the numbers of the rules at the
end are exact. Policies are enforced on the node of the pod that they select: for a pod of another node,
run the command there.`,
    examples: ['netplugctl policy denied --since 10m', 'netplugctl policy denied --pod shop/web-0 -o json'],
    run: async (context, { options }) => policyDenied(context, options),
  }),
  command({
    path: ['policy', 'flows'],
    summary: 'Lists connections of pods of this node that policies allowed.',
    options: OPTIONS,
    details: `
Asks the agent of this node; does not read the datastore. The agent reads the connections that the
kernel tracks every 30 s and keeps the last hour, so very short connections may be missing. "no" under
ANSWERED means that no packet came back: policies on the node of the other end may have denied it.`,
    examples: ['netplugctl policy flows --since 1h -o json'],
    run: async (context, { options }) => policyFlows(context, options),
  }),
  command({
    path: ['policy', 'recommend'],
    summary: 'Writes policies that allow the connections of a namespace that were seen.',
    arguments: [NAMESPACE],
    options: {
      ...FLOW_FILES,
      kind: choice('kind', 'kind of the policies; the others are those of netplug', { choices: RECOMMENDED_KINDS }),
      socket: SOCKET,
    },
    details: `
Prints one policy for each workload of the namespace, as YAML. It allows in both directions what pods of
the workload were seen to exchange, for all of its pods, and DNS. What is not certain stands in comments.
Flows come from the agent of this node, or from files that "policy flows -o json" wrote on each node.
Review the policies, and see what they cut with "policy plan", before you apply them.`,
    examples: [
      'netplugctl policy recommend shop',
      'netplugctl policy recommend shop --flows node-1.json --flows node-2.json',
      'netplugctl policy recommend shop --kind NetworkPolicy',
    ],
    run: async (context, { args: [namespace], options }) => policyRecommend(context, { namespace, ...options }),
  }),
];

function seconds(text: string): number {
  const [, number, unit = ''] = /^(\d{1,4})([smh])$/.exec(text) ?? [];
  const asked = Number(number) * (ownValue(UNITS, unit) ?? Number.NaN);
  return asked >= 1 && asked <= KEPT_SECONDS
    ? asked
    : notAllowed('Allowed is a time such as 30s, 10m or 1h, at most 1h.');
}
