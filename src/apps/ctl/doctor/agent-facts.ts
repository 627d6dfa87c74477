import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { timeLimit } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { readShownCalls } from '../../../model/shown-call.ts';
import { readShownNetwork, type ShownNetwork } from '../../../model/shown-network.ts';
import { type Asking, askAgentOfNode } from '../node/ask-agent-of-node.ts';
import type { CtlPorts } from '../ports.ts';
import type { Places } from './sources.ts';

/** State of the agent, from its socket, its health pages and its files. */
export interface AgentFacts {
  readonly socket: string;
  readonly hasSocket: boolean;
  /** The name under which an agent registered this node; undefined when no agent has run here. */
  readonly registeredName: string | undefined;
  /** Reason why the agent does not answer; undefined when it does. */
  readonly unreachable: string | undefined;
  readonly version: string | undefined;
  /** Undefined when the agent does not answer, or does not manage the network between nodes. */
  readonly network: ShownNetwork | undefined;
  readonly health: string;
  /** Undefined when there is no answer from `health`. */
  readonly readiness: { readonly isReady: boolean; readonly reasons: readonly string[] } | undefined;
  /** Names of the segments of journals. */
  readonly journals: readonly string[];
  /** Paths of the segments that the agent renamed because parts of them are unreadable. */
  readonly damagedJournals: readonly string[];
}

const CALLS = { kind: 'show-calls', text: '{"last":1}' } as const;
const NETWORK = { kind: 'show-network', text: '' } as const;

/** Time for the agent to answer: several topics wait for these facts. */
const ANSWER_MS = 3000;

interface FactsPorts extends Asking {
  readonly ports: Asking['ports'] & Pick<CtlPorts, 'readRegisteredName'>;
}

export async function askAgentFacts(
  { ports, signal }: FactsPorts,
  { socket, health }: Pick<Places, 'socket' | 'health'>,
): Promise<AgentFacts> {
  const hasSocket = await lstat(socket).then(() => true, ignoreMissing);
  using limit = timeLimit(ANSWER_MS, () => new Error(`no answer within ${String(ANSWER_MS / 1000)} s`));
  const asking = { ports, signal: AbortSignal.any([signal, limit.signal]) };
  const [answer, readiness] = await Promise.all([askNetwork(asking, socket), askReadiness(health, asking.signal)]);
  signal.throwIfAborted();
  const folder = join(ports.machine.stateDir, 'journal');
  const files = (await readdir(folder).catch(ignoreMissing)) ?? [];
  return {
    socket,
    hasSocket: hasSocket === true,
    registeredName: ports.readRegisteredName(),
    unreachable: undefined,
    version: undefined,
    network: undefined,
    ...answer,
    health,
    readiness,
    journals: files.filter((name) => name.endsWith('.jsonl')),
    damagedJournals: files.filter((name) => name.endsWith('.damaged')).map((name) => join(folder, name)),
  };
}

/** Returns why the agent does not answer, or its answers. */
async function askNetwork(
  asking: Asking,
  socket: string,
): Promise<Partial<Pick<AgentFacts, 'unreachable' | 'version' | 'network'>>> {
  const calls = await askAgentOfNode(asking, { socket, question: CALLS }, readShownCalls).catch(reasonOf);
  if (typeof calls === 'string') return { unreachable: calls };
  const network = await askAgentOfNode(asking, { socket, question: NETWORK }, readShownNetwork).catch(reasonOf);
  if (typeof network !== 'string') return { version: calls.version, network };
  // An agent that does not manage the network between nodes refuses the question.
  return { version: calls.version, unreachable: asking.signal.aborted ? network : undefined };
}

/** Returns undefined without an answer: the pages may be switched off, or have another address. */
async function askReadiness(health: string, signal: AbortSignal): Promise<AgentFacts['readiness']> {
  try {
    const answer = await fetch(`http://${health}/readyz`, { signal });
    const text = await answer.text();
    return { isReady: answer.ok, reasons: answer.ok ? [] : text.split('\n').filter((line) => line !== '') };
  } catch {
    return undefined;
  }
}
