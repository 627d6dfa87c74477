import { NetplugError } from '../base/errors.ts';
import { showFound } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';

const WHAT = 'Cannot read the network configuration';

/** Reads JSON text that must hold one object. @throws cni/input-undecodable */
export function parseJsonObject(text: string): Readonly<Record<string, unknown>> {
  const bare = text.startsWith('\uFEFF') ? text.slice(1) : text;
  if (bare.trim() === '') {
    throw new NetplugError('cni/input-undecodable', `${WHAT}: the input is empty`, {
      hint: 'Pass the network configuration as JSON on standard input',
    });
  }
  const value = parse(bare);
  if (isRecord(value)) return value;
  throw new NetplugError('cni/input-undecodable', `${WHAT}: the input is not a JSON object but ${showFound(value)}`, {
    hint: 'Pass one JSON object',
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const offset = brokenAt(text, cause);
    const before = text.slice(0, offset).split('\n');
    const line = before.length;
    const column = (before.at(-1) ?? '').length + 1;
    const excerpt = text.slice(Math.max(0, offset - 20), offset + 20);
    const where = `line ${String(line)}, column ${String(column)}, near ${JSON.stringify(excerpt)}`;
    throw new NetplugError('cni/input-undecodable', `${WHAT}: the input is not valid JSON at ${where}`, {
      hint: 'Correct the JSON there: a missing comma, quote or bracket is the usual reason',
      facts: { line, column },
      cause,
    });
  }
}

/** The engine tells the place in its message, except when the text ends too early. */
function brokenAt(text: string, cause: unknown): number {
  const match = /position (\d+)/.exec(cause instanceof Error ? cause.message : '');
  return match?.[1] === undefined ? text.length : Number(match[1]);
}
