import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { readShownCalls } from '../../../model/shown-call.ts';
import { networkParts } from '../../../install/host/network-parts.ts';
import { type PartKind, removeParts } from '../../../install/host/part.ts';
import { askAgentOfNode } from './ask-agent-of-node.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../../../base/counted.ts';

/**
 * Removes what the agent left on this host for traffic between nodes. Returns 1 when some of it could not be removed.
 * @throws resource/in-use while the agent runs
 */
export async function cleanNode(
  context: Context,
  { socket }: { readonly socket: string | undefined },
): Promise<Status> {
  const { ports, io } = context;
  await assertNoAgent(context, socket);
  const gone: { readonly kind: PartKind; readonly subject: string }[] = [];
  const isComplete = await removeParts(context, networkParts(ports), {
    mode: 'apply',
    report: {
      onGone: (kind, subject) => gone.push({ kind, subject }),
      onLeft: (kind, { subject, reason }) => {
        io.stderr(`warning: ${kind} "${subject}" was not removed: ${reason}\n`);
      },
    },
  });
  const of = (kind: PartKind): readonly string[] =>
    gone.filter((each) => each.kind === kind).map((each) => each.subject);
  const removed = [
    of('bird').length === 0 ? [] : 'BIRD with its routes',
    of('route').length === 0 ? [] : counted(of('route').length, 'route'),
    of('tunnel').map((device) => `tunnel device ${device}`),
    of('table').map((name) => `nftables table inet ${name}`),
  ].flat();
  if (removed.length > 0) io.stdout(`removed ${removed.join(', ')}\n`);
  else if (isComplete) io.stdout('nothing to remove\n');
  return isComplete ? 0 : 1;
}

/** Refuses to continue while the agent runs: it would recreate everything at once. */
async function assertNoAgent(context: Context, socket: string | undefined): Promise<void> {
  try {
    await askAgentOfNode(context, { socket, question: { kind: 'show-calls', text: '{"last":1}' } }, readShownCalls);
  } catch (cause) {
    if (isNetplugError(cause, 'agent/unreachable')) return;
    if (!isNetplugError(cause, 'agent/protocol')) throw cause;
  }
  throw new NetplugError('resource/in-use', 'Cannot clean this node: netplug-agent is running', {
    hint: 'Stop netplug-agent first',
  });
}
