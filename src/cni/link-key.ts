import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import { ignoreMissing } from '../base/missing-file.ts';

const FILE = 'link-key';
const KEY = /^[0-9a-f]{64}\n$/;

/**
 * Returns a function that reads the key of the node in its state folder, and makes one when there is none: once, also when
 * several processes do so, and readable by root alone. A lost key is replaced; links of before are found by their aliases, and
 * so are those of a process whose own key stands in because none can be kept, such as on a full disk.
 */
export function linkKeyIn(folder: string): () => Promise<string> {
  let read: Promise<string> | undefined;
  const standIn = newKey();
  return async () => {
    read ??= readOrMake(folder);
    try {
      return await read;
    } catch {
      read = undefined;
      return standIn;
    }
  };
}

/** Reads the key of the node; undefined when there is none, and for a user who may not read it. */
export async function readLinkKey(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, FILE), 'utf8').catch(() => '');
  return KEY.test(text) ? text.trim() : undefined;
}

async function readOrMake(folder: string): Promise<string> {
  const path = join(folder, FILE);
  // A file that another program has damaged is replaced, too.
  for (const mayReplace of [false, true]) {
    const text = await readFile(path, 'utf8').catch(ignoreMissing);
    if (text !== undefined && KEY.test(text)) return text.trim();
    if (text !== undefined && mayReplace) await rm(path, { force: true });
    await make(folder, path);
  }
  const made = await readFile(path, 'utf8');
  if (KEY.test(made)) return made.trim();
  throw new Error('its content is no key');
}

/** Makes the file whole or not at all. Of several processes that do so at once, the first one counts. */
async function make(folder: string, path: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    await using file = await open(draft, 'wx', 0o600);
    await file.writeFile(`${newKey()}\n`);
    await file.sync();
    await link(draft, path);
  } catch (cause) {
    if (errnoOf(cause) !== 'EEXIST') throw cause;
  } finally {
    await rm(draft, { force: true });
  }
}

function newKey(): string {
  return randomBytes(32).toString('hex');
}
