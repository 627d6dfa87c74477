import { NetplugError } from '../../base/errors.ts';
import type { Phase } from '../../base/stopwatch.ts';
import { VERSION } from '../../base/version.ts';
import { type CallRecord, pathOf } from '../../cni/call-record.ts';
import { readCallsQuestion, type ShownCall } from '../../model/shown-call.ts';

/** The last 256 calls of a node. */
export interface CallHistory {
  readonly add: (record: CallRecord) => void;
  /** Returns the calls that a `CallsQuestion` selects. Question and answer are JSON. @throws agent/protocol */
  readonly answer: (question: string) => string;
}

const KEPT_CALLS = 256;
/** A call has about ten. A GC with many delegated attachments may have more, and then loses the shortest. */
const KEPT_PHASES = 64;
const KEPT_TEXT = 256;
const KEPT_MESSAGE = 1000;

export function callHistory(): CallHistory {
  const calls: ShownCall[] = [];
  return {
    add: (record) => {
      calls.push(shown(record));
      if (calls.length > KEPT_CALLS) calls.shift();
    },
    answer: (text) => {
      const question = readCallsQuestion(text);
      if (question === undefined) {
        throw new NetplugError('agent/protocol', 'Cannot decode the request for calls', {
          hint: 'Use a netplugctl of the same version as the agent',
        });
      }
      const { pod, order, last } = question;
      const found = calls.filter((call) => pod === undefined || call.pod === pod);
      const ordered = order === 'slowest' ? found.toSorted((a, b) => a.totalMs - b.totalMs) : found;
      return JSON.stringify({ version: VERSION, calls: ordered.slice(-last) });
    },
  };
}

function shown(record: CallRecord): ShownCall {
  const { program, command, identity, startedAt, totalMs, phases, failure, parent } = record;
  return {
    program,
    command,
    containerId: cut(identity.containerId),
    ifName: cut(identity.ifName),
    network: cut(identity.network),
    pod: cut(identity.pod),
    node: cut(identity.node),
    startedAt: new Date(startedAt).toISOString(),
    totalMs: rounded(totalMs),
    phases: longest(phases).map((phase) => ({
      ...phase,
      startMs: rounded(phase.startMs),
      durationMs: rounded(phase.durationMs),
    })),
    path: pathOf(record),
    failure: failure === undefined ? undefined : { ...failure, message: failure.message.slice(0, KEPT_MESSAGE) },
    traceId: parent?.traceId,
  };
}

function longest(phases: readonly Phase[]): readonly Phase[] {
  if (phases.length <= KEPT_PHASES) return phases;
  const kept = new Set(phases.toSorted((a, b) => b.durationMs - a.durationMs).slice(0, KEPT_PHASES));
  return phases.filter((phase) => kept.has(phase));
}

function cut(text: string | undefined): string | undefined {
  return text?.slice(0, KEPT_TEXT);
}

/** Rounds to microseconds. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
