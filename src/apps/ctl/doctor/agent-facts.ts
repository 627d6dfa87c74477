import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { readShownCalls } from '../../../model/shown-call.ts';
import { readShownNetwork, type ShownNetwork } from '../../../model/shown-network.ts';
import { askAgentOfNode } from '../node/ask-agent-of-node.ts';
import type { Context } from '../ports.ts';
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

export async function askAgentFacts(context: Context, { socket, health }: Places): Promise<AgentFacts> {
  const { ports, signal } = context;
  const hasSocket = await lstat(socket).then(() => true, ignoreMissing);
  const calls = await askAgentOfNode(context, { socket, question: CALLS }, readShownCalls).catch(reasonOf);
  const unreachable = typeof calls === 'string' ? calls : undefined;
  const network =
    unreachable === undefined
      ? await askAgentOfNode(context, { socket, question: NETWORK }, readShownNetwork).catch(noNetwork)
      : undefined;
  const folder = join(ports.machine.stateDir, 'journal');
  const files = (await readdir(folder).catch(ignoreMissing)) ?? [];
  return {
    socket,
    hasSocket: hasSocket === true,
    registeredName: ports.readRegisteredName(),
    unreachable,
    version: typeof calls === 'string' ? undefined : calls.version,
    network,
    health,
    readiness: await askReadiness(health, signal),
    journals: files.filter((name) => name.endsWith('.jsonl')),
    damagedJournals: files.filter((name) => name.endsWith('.damaged')).map((name) => join(folder, name)),
  };
}

/** The agent refuses this question when it does not manage the network between nodes. */
function noNetwork(): undefined {
  return undefined;
}

/** Returns undefined without an answer: the pages may be switched off, or have another address. */
async function askReadiness(health: string, signal: AbortSignal): Promise<AgentFacts['readiness']> {
  try {
    const answer = await fetch(`http://${health}/readyz`, { signal });
    const text = await answer.text();
    return { isReady: answer.ok, reasons: answer.ok ? [] : text.split('\n').filter((line) => line !== '') };
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
