import { readShownNetwork } from '../../../model/shown-network.ts';
import { askAgentOfNode } from './ask-agent-of-node.ts';
import type { Output } from '../common-options.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { renderNetwork } from './render-network.ts';

export interface StatusOptions {
  /** Socket of the agent; that of this machine by default. */
  readonly socket: string | undefined;
  readonly output: Output;
}

/** Shows the network of this node as its agent maintains it. Returns 1 when there are problems. @throws agent/unreachable, agent/protocol */
export async function nodeStatus(context: Context, { socket, output }: StatusOptions): Promise<Status> {
  const { io } = context;
  const asked = { socket, question: { kind: 'show-network', text: '' } } as const;
  const network = await askAgentOfNode(context, asked, readShownNetwork);
  io.stdout(renderDocument(network, output, () => renderNetwork(network, io.screen)));
  return network.problems.length === 0 ? 0 : 1;
}
