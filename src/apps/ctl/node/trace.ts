import { type CallsQuestion, readShownCalls } from '../../../model/shown-call.ts';
import { askAgentOfNode } from './ask-agent-of-node.ts';
import type { Output } from '../common-options.ts';
import type { Context, Status } from '../ports.ts';
import { jsonText } from '../render-document.ts';
import { renderWaterfall } from './waterfall.ts';

export interface TraceOptions extends CallsQuestion {
  /** Socket of the agent; that of this machine by default. */
  readonly socket: string | undefined;
  readonly output: Output;
}

/** Shows the latest calls of this node. @throws agent/unreachable, agent/protocol */
export async function trace(context: Context, { last, pod, order, socket, output }: TraceOptions): Promise<Status> {
  const { io } = context;
  const question: CallsQuestion = { last, pod, order };
  const asked = { socket, question: { kind: 'show-calls', text: JSON.stringify(question) } } as const;
  const { calls } = await askAgentOfNode(context, asked, readShownCalls);
  if (output === 'json') io.stdout(jsonText({ calls }));
  else if (calls.length > 0) io.stdout(renderWaterfall(calls, io.screen));
  else io.stderr('The agent has served no matching call since it started\n');
  return 0;
}
