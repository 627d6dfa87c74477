import { NetplugError } from '../../../base/errors.ts';
import { readShownNetwork } from '../../../model/shown-network.ts';
import type { Output } from '../common-options.ts';
import { askAgentOfNode } from '../node/ask-agent-of-node.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { renderTable } from '../table.ts';

/** Shows the settings of the agent of this machine and where each comes from. @throws agent/unreachable, agent/protocol */
export async function explainAgent(
  context: Context,
  { socket, output }: { readonly socket: string | undefined; readonly output: Output },
): Promise<Status> {
  const { io } = context;
  const question = { kind: 'show-network', text: '' } as const;
  const { settings } = await askAgentOfNode(context, { socket, question }, readShownNetwork);
  if (settings === undefined) {
    throw new NetplugError('agent/protocol', 'Cannot show the settings of the agent: it is of an earlier release', {
      hint: 'Restart the agent with this release',
    });
  }
  const rows = settings.map(({ name, value, source }) => [name, value, source]);
  io.stdout(renderDocument(settings, output, () => renderTable(['SETTING', 'VALUE', 'FROM'], rows)));
  return 0;
}
