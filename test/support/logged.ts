// What long-running programs print goes to files: beside each other, readable while they run, and without bounds in memory.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestNode } from './node.ts';

const SHOWN = 4000;

/** The node, with everything started on it from now on printing to `<folder>/<name>.log`, seen inside and outside. */
export function logged<T extends Pick<TestNode, 'start'>>(node: T, folder: string, name: string): T {
  const file = join(folder, `${name}.log`);
  const start: TestNode['start'] = async (command, options) => {
    const service = await node.start(['sh', '-c', 'exec "$@" >> "$0" 2>&1', file, ...command], options);
    return { ...service, log: () => tailOf(file) };
  };
  return { ...node, start };
}

/** The end of the file. */
export function tailOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8').slice(-SHOWN) : '';
}
