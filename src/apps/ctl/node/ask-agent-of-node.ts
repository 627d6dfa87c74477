import { isNetplugError, NetplugError, reasonOf } from '../../../base/errors.ts';
import type { AgentQuestion } from '../../../install/host/host-ports.ts';
import type { CtlPorts } from '../ports.ts';

/** What it takes to ask. */
export interface Asking {
  readonly ports: Pick<CtlPorts, 'askAgent' | 'machine'>;
  readonly signal: AbortSignal;
}

interface Asked {
  /** Socket of the agent; that of this machine by default. */
  readonly socket: string | undefined;
  readonly question: AgentQuestion;
}

/** Sends a question to the agent of this node and returns its decoded answer. @throws agent/unreachable, agent/protocol */
export async function askAgentOfNode<T>(
  { ports, signal }: Asking,
  { socket = ports.machine.socketPath, question }: Asked,
  read: (text: string) => T | undefined,
): Promise<T> {
  const text = await ports.askAgent(socket, question, signal).catch((cause: unknown) => {
    if (isNetplugError(cause)) throw cause;
    const reason = reasonOf(cause);
    throw new NetplugError('agent/unreachable', `Cannot reach the agent at "${socket}": ${reason}`, {
      hint: 'Run the command as root on a node where netplug-agent runs, or give its socket with --socket',
      cause,
    });
  });
  const answer = read(text);
  if (answer !== undefined) return answer;
  throw new NetplugError('agent/protocol', `Cannot decode the answer of the agent at "${socket}"`, {
    hint: 'Use a netplugctl of the same version as the agent',
  });
}
