import {
  type FlowsQuestion,
  readShownFlows,
  type ShownFlow,
  type ShownFlowEnd,
  type ShownFlows,
} from '../../../model/shown-flows.ts';
import { whyCommand } from '../../../policy/why-command.ts';
import { askAgentOfNode } from '../node/ask-agent-of-node.ts';
import type { Context } from '../ports.ts';

/** Returns flows that the agent of this node has recorded. @throws agent/unreachable, agent/protocol */
export async function askFlows(
  context: Pick<Context, 'ports' | 'signal'>,
  { socket, question }: { readonly socket: string | undefined; readonly question: FlowsQuestion },
): Promise<ShownFlows> {
  const asked = { socket, question: { kind: 'show-flows', text: JSON.stringify(question) } } as const;
  return askAgentOfNode(context, asked, readShownFlows);
}

/** Returns an end for people: `shop/web-0 (10.65.0.1)`, `192.0.2.7`, `host/node-1 (192.0.2.1)`. */
export function endText({ address, pod, host }: ShownFlowEnd): string {
  const name = pod ?? (host === undefined ? undefined : `host/${host}`);
  return name === undefined ? address : `${name} (${address})`;
}

/** Returns the command that explains the flow; undefined when there is none. */
export function whyFlow({ source, destination, protocol, port, request }: ShownFlow): string | undefined {
  const nameOf = ({ address, pod, host }: ShownFlowEnd): string =>
    pod ?? (host === undefined ? address : `host/${host}`);
  return whyCommand({ from: nameOf(source), to: nameOf(destination), protocol, port, request });
}
