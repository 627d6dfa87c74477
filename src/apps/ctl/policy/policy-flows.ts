import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import type { FlowVerdict, ShownFlow, ShownFlows } from '../../../model/shown-flows.ts';
import { trafficText } from '../../../policy/why-command.ts';
import type { Context, Status } from '../ports.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { renderTable } from '../table.ts';
import { askFlows, endText, whyFlow } from './ask-flows.ts';
import type { DocumentOutput } from '../common-options.ts';
import { renderDocument } from '../render-document.ts';

const SINCE_SECONDS = 600;

export interface FlowOptions {
  /** In seconds. */
  readonly since: number | undefined;
  readonly pod: string | undefined;
  /** Node whose agent is asked: that of this machine unless set. Only that one can be. */
  readonly node: string | undefined;
  readonly allNodes: boolean;
  readonly socket: string | undefined;
  readonly output: DocumentOutput;
}

const STAGED: readonly FlowVerdict[] = ['staged deny', 'staged allow', 'staged log'];

/** Prints the flows that policies of this node denied, or logged, or that staged policies matched. */
export async function policyDenied(
  context: Context,
  { staged, logged, ...options }: FlowOptions & { readonly staged: boolean; readonly logged: boolean },
): Promise<Status> {
  const verdicts = [...(staged ? STAGED : []), ...(logged ? (['logged'] as const) : [])];
  return showFlows(context, options, {
    command: 'denied',
    verdicts: verdicts.length === 0 ? ['denied'] : verdicts,
    toText: renderDenied,
  });
}

/** Prints the flows that policies of this node allowed. */
export async function policyFlows(context: Context, options: FlowOptions): Promise<Status> {
  return showFlows(context, options, { command: 'flows', verdicts: ['allowed'], toText: renderAllowed });
}

interface Shown {
  readonly command: 'denied' | 'flows';
  readonly verdicts: FlowVerdict[];
  readonly toText: (shown: ShownFlows) => string;
}

async function showFlows(
  context: Context,
  { since = SINCE_SECONDS, pod, node, allNodes, socket, output }: FlowOptions,
  { command, verdicts, toText }: Shown,
): Promise<Status> {
  const { io } = context;
  const elsewhere = onlyOnItsNode(`policy ${command} --since ${String(since)}s`, node);
  if (allNodes) throw elsewhere;
  const question = { verdicts, sinceSeconds: since, ...(pod === undefined ? {} : { pod }) };
  const shown = await askFlows(context, { socket, question }).catch((cause: unknown) => {
    throw node !== undefined && isNetplugError(cause, 'agent/unreachable') ? elsewhere : cause;
  });
  if (node !== undefined && node !== shown.node) throw elsewhere;
  io.stdout(renderDocument(shown, output, toText));
  for (const note of notesOf(shown)) io.stderr(`${note}\n`);
  return 0;
}

/** Agents have no port: what they record is for root of their node alone. */
function onlyOnItsNode(command: string, node: string | undefined): NetplugError {
  const [whose, where] = node === undefined ? ['of other nodes', 'each node'] : [`of node "${node}"`, `node ${node}`];
  return new NetplugError(
    'agent/unreachable',
    `Cannot ask the agent ${whose} from here: agents answer only root of their own node, and have no port`,
    {
      hint: `Run "netplugctl ${command}" as root on ${where}; events NetplugPolicyDenied of pods and the metric netplug_policy_packets_total cover all nodes`,
    },
  );
}

/** Renders each flow with the rule that decided and the command that explains it, then the counters of rules. */
function renderDenied({ flows, rules, recordedSince }: ShownFlows): string {
  const counted = rules.map(({ verdict, rule, packets }) => [
    `  ${String(packets)}`,
    `${rule.direction}, ${verdict}`,
    visibleText(rule.reason),
  ]);
  const lines = flows.flatMap((flow) => {
    const { verdict, rule, lastSeen, count } = flow;
    const why = whyFlow(flow);
    return [
      `${lastSeen}  ${String(count)}x  ${endText(flow.source)} -> ${endText(flow.destination)}, ${trafficText(flow)}: ${verdict}`,
      ...(rule === undefined ? [] : [`  ${rule.direction}: ${rule.reason}`]),
      ...(why === undefined ? [] : [`  ${why}`]),
    ];
  });
  const counters =
    counted.length === 0 ? '' : `packets counted by rules since ${recordedSince}\n${renderTable(undefined, counted)}`;
  return [lines.map((line) => `${visibleText(line)}\n`).join(''), counters].filter((text) => text !== '').join('\n');
}

function renderAllowed({ flows }: ShownFlows): string {
  const titles = ['LAST SEEN', 'CONNECTIONS', 'FROM', 'TO', 'TRAFFIC', 'ANSWERED'];
  return renderTable(titles, flows.map(allowedRow));
}

function allowedRow(flow: ShownFlow): readonly string[] {
  const { lastSeen, count, source, destination, isReplied = false } = flow;
  return [lastSeen, String(count), endText(source), endText(destination), trafficText(flow), isReplied ? 'yes' : 'no'];
}

function notesOf({ node, flows, recordedSince, lostReports, forgotten }: ShownFlows): readonly string[] {
  return [
    ...(flows.length === 0 ? [`No matching flow of pods of node ${node} since ${recordedSince}`] : []),
    ...(lostReports > 0 ? [`${String(lostReports)} reports of the kernel did not reach the agent`] : []),
    ...(forgotten > 0 ? [`${String(forgotten)} flows were forgotten: the record is bounded`] : []),
  ];
}
