import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { readShownCalls } from '../../../model/shown-call.ts';
import { readShownNetwork, type ShownNetwork } from '../../../model/shown-network.ts';
import { askAgentOfNode } from '../node/ask-agent-of-node.ts';
import type { Context } from '../ports.ts';
import type { Places } from './sources.ts';

/** What the agent shows of itself. */
export interface AgentFacts {
  readonly socket: string;
  readonly hasSocket: boolean;
  /** As its predecessor or itself did; undefined when no agent ever ran here. */
  readonly registeredName: string | undefined;
  /** Why it does not answer; undefined when it does. */
  readonly silence: string | undefined;
  readonly version: string | undefined;
  /** Undefined when it does not answer, or leaves the network to somebody else. */
  readonly network: ShownNetwork | undefined;
  readonly health: string;
  /** Undefined when nobody answers at `health`. */
  readonly readiness: { readonly isReady: boolean; readonly reasons: readonly string[] } | undefined;
  /** Names of the segments of journals. */
  readonly journals: readonly string[];
  /** Paths of the segments that were kept aside because parts of them cannot be read. */
  readonly damagedJournals: readonly string[];
}

const CALLS = { kind: 'show-calls', text: '{"last":1}' } as const;
const NETWORK = { kind: 'show-network', text: '' } as const;

export async function askAgentFacts(context: Context, { socket, health }: Places): Promise<AgentFacts> {
  const { ports, signal } = context;
  const hasSocket = await lstat(socket).then(() => true, ignoreMissing);
  const calls = await askAgentOfNode(context, { socket, question: CALLS }, readShownCalls).catch(reasonOf);
  const silence = typeof calls === 'string' ? calls : undefined;
  const network =
    silence === undefined
      ? await askAgentOfNode(context, { socket, question: NETWORK }, readShownNetwork).catch(noNetwork)
      : undefined;
  const folder = join(ports.machine.stateDir, 'journal');
  const files = (await readdir(folder).catch(ignoreMissing)) ?? [];
  return {
    socket,
    hasSocket: hasSocket === true,
    registeredName: ports.readRegisteredName(),
    silence,
    version: typeof calls === 'string' ? undefined : calls.version,
    network,
    health,
    readiness: await askReadiness(health, signal),
    journals: files.filter((name) => name.endsWith('.jsonl')),
    damagedJournals: files.filter((name) => name.endsWith('.damaged')).map((name) => join(folder, name)),
  };
}

/** An agent may leave the network between nodes to somebody else. */
function noNetwork(): undefined {
  return undefined;
}

/** The pages may be switched off, or somewhere else. */
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
