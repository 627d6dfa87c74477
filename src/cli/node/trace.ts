import { type CallsQuestion, readShownCalls } from '../../model/shown-call.ts';
import { askAgentOfNode } from './ask-agent-of-node.ts';
import type { Job } from '../job.ts';
import type { Context, Status } from '../ports.ts';
import { renderWaterfall } from './waterfall.ts';

/** Shows the last calls of this node. @throws agent/unreachable, agent/protocol */
export async function trace(
  context: Context,
  { last, pod, order, socket, output }: Extract<Job, { verb: 'trace' }>,
): Promise<Status> {
  const { io } = context;
  const question: CallsQuestion = { last, pod, order };
  const asked = { socket, question: { kind: 'show-calls', text: JSON.stringify(question) } } as const;
  const calls = await askAgentOfNode(context, asked, readShownCalls);
  if (output === 'json') io.stdout(`${JSON.stringify({ calls }, undefined, 2)}\n`);
  else if (calls.length > 0) io.stdout(renderWaterfall(calls, io.screen));
  else io.stderr('The agent has served no such call since it started\n');
  return 0;
}
