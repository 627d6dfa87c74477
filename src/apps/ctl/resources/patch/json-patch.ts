import { isDeepStrictEqual } from 'node:util';
import type { NetplugError } from '../../../../base/errors.ts';
import { showFound } from '../../../../base/problem.ts';
import { isRecord } from '../../../../model/read-schema.ts';
import { patchUnusable } from './patch-errors.ts';

type Raw = Readonly<Record<string, unknown>>;
type Container = Record<string, unknown> | unknown[];

const OPERATIONS = ['add', 'remove', 'replace', 'move', 'copy', 'test'] as const;

/**
 * The document after the operations of RFC 6902, each on what the one before has left; the document itself stays.
 * @throws resource/invalid for what is no such patch, or does not fit the document
 */
export function applyJsonPatch(document: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw patchUnusable('', `found ${showFound(patch)}, allowed is an array of operations`);
  // In a box, so that the whole document, whose pointer is empty, has a place as well.
  const box = { document: structuredClone(document) };
  for (const [index, operation] of patch.entries()) applyOne(box, operation, `[${String(index)}]`);
  return box.document;
}

function applyOne(box: Container, operation: unknown, at: string): void {
  if (!isRecord(operation)) throw patchUnusable(at, `found ${showFound(operation)}, allowed is an operation`);
  const op = OPERATIONS.find((known) => known === operation['op']);
  const refuse = (message: string): NetplugError => patchUnusable(`${at} ${op ?? ''}`.trim(), message);
  if (op === undefined) {
    throw refuse(
      `op: found ${showFound(operation['op'])}, allowed is ${OPERATIONS.map((each) => `"${each}"`).join(', ')}`,
    );
  }
  const path = pointerOf(operation, 'path', refuse);
  if (op === 'remove') {
    take(box, path, refuse);
  } else if (op === 'test') {
    const found = valueAt(box, path, refuse);
    const wanted = givenValue(operation, refuse);
    if (!isDeepStrictEqual(found, wanted))
      throw refuse(`${path.text} is ${showFound(found)}, not ${showFound(wanted)}`);
  } else if (op === 'add') {
    put(box, path, { value: givenValue(operation, refuse), refuse });
  } else if (op === 'replace') {
    const value = givenValue(operation, refuse);
    take(box, path, refuse);
    put(box, path, { value, refuse });
  } else {
    const from = pointerOf(operation, 'from', refuse);
    if (op === 'move' && path.text.startsWith(`${from.text}/`))
      throw refuse(`${from.text} cannot be moved into itself`);
    const value = op === 'move' ? take(box, from, refuse) : structuredClone(valueAt(box, from, refuse));
    put(box, path, { value, refuse });
  }
}

type Refuse = (message: string) => NetplugError;
/** `keys` begin with that of the document in its box. */
interface Pointer {
  readonly text: string;
  readonly keys: readonly string[];
}

function pointerOf(operation: Raw, member: 'path' | 'from', refuse: Refuse): Pointer {
  const text = operation[member];
  if (typeof text !== 'string')
    throw refuse(`${member}: found ${showFound(text)}, allowed is a pointer such as "/spec/disabled"`);
  if (text !== '' && !text.startsWith('/')) throw refuse(`${member}: "${text}" does not begin with "/"`);
  if (/~(?![01])/.test(text)) throw refuse(`${member}: "${text}" has a "~" that is neither "~0" nor "~1"`);
  const keys = text
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  return { text: text === '' ? 'the document' : text, keys: ['document', ...keys] };
}

function givenValue(operation: Raw, refuse: Refuse): unknown {
  if (!Object.hasOwn(operation, 'value')) throw refuse('value: missing');
  return structuredClone(operation['value']);
}

function valueAt(box: Container, { text, keys }: Pointer, refuse: Refuse): unknown {
  let found: unknown = box;
  for (const key of keys) {
    if (!isContainer(found) || !Object.hasOwn(found, key) || (Array.isArray(found) && !isIndex(key)))
      throw refuse(`${text} does not exist`);
    found = Reflect.get(found, key);
  }
  return found;
}

function parentOf(box: Container, { text, keys }: Pointer, refuse: Refuse): { parent: Container; key: string } {
  const parent = valueAt(box, { text: `what ${text} is in`, keys: keys.slice(0, -1) }, refuse);
  if (!isContainer(parent)) throw refuse(`what ${text} is in is neither object nor array`);
  return { parent, key: keys.at(-1) ?? '' };
}

function take(box: Container, pointer: Pointer, refuse: Refuse): unknown {
  const value = valueAt(box, pointer, refuse);
  const { parent, key } = parentOf(box, pointer, refuse);
  if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else Reflect.deleteProperty(parent, key);
  return value;
}

function put(box: Container, pointer: Pointer, { value, refuse }: { value: unknown; refuse: Refuse }): void {
  const { parent, key } = parentOf(box, pointer, refuse);
  if (!Array.isArray(parent)) {
    Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    const index = key === '-' ? parent.length : Number(key);
    if ((key !== '-' && !isIndex(key)) || index > parent.length)
      throw refuse(`${pointer.text} is no place in an array of ${String(parent.length)}`);
    parent.splice(index, 0, value);
  }
}

function isIndex(key: string): boolean {
  return /^(0|[1-9]\d*)$/.test(key);
}

function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null;
}
