import { NetplugError } from '../base/errors.ts';
import { showFound } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';
import { findJsonSlip } from './json-slip.ts';

const WHAT = 'Cannot read the network configuration';

/** Reads JSON text that must hold one object. @throws cni/input-undecodable */
export function parseJsonObject(text: string): Readonly<Record<string, unknown>> {
  const bare = text.startsWith('\uFEFF') ? text.slice(1) : text;
  if (bare.trim() === '') {
    throw new NetplugError('cni/input-undecodable', `${WHAT}: the input is empty`, {
      hint: 'Write the network configuration as JSON',
    });
  }
  const value = parse(bare);
  if (isRecord(value)) return value;
  throw new NetplugError('cni/input-undecodable', `${WHAT}: the input is not a JSON object but ${showFound(value)}`, {
    hint:
      Array.isArray(value) && value.length === 1 ? 'Write the object without [ ] around it' : 'Pass one JSON object',
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const { offset, advice } = findJsonSlip(text) ?? { offset: text.length, advice: 'correct the JSON' };
    const before = text.slice(0, offset).split('\n');
    const line = before.length;
    const column = (before.at(-1) ?? '').length + 1;
    const excerpt = text.slice(Math.max(0, offset - 20), offset + 20);
    const where = `line ${String(line)}, column ${String(column)}, near ${JSON.stringify(excerpt)}`;
    throw new NetplugError('cni/input-undecodable', `${WHAT}: the input is not valid JSON at ${where}`, {
      hint: advice.replace(/^./, (letter) => letter.toUpperCase()),
      facts: { line, column },
      cause,
    });
  }
}
