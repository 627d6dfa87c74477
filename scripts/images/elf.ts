// What binutils say about an executable or a library.
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readSync } from 'node:fs';
import type { DebianArchitecture } from './debian-packages.ts';

export interface Elf {
  /** Undefined for a machine that images are not built for. */
  readonly architecture: DebianArchitecture | undefined;
  /** Names of the libraries that it loads. */
  readonly needed: readonly string[];
}

const MAGIC = '\u007FELF';
const MACHINES: Readonly<Record<string, DebianArchitecture>> = {
  'Advanced Micro Devices X86-64': 'amd64',
  AArch64: 'arm64',
};

/** Returns undefined for a file that is neither an executable nor a library. */
export function describeElf(path: string): Elf | undefined {
  if (!isElf(path)) return undefined;
  const text = execFileSync('readelf', ['--wide', '--file-header', '--dynamic', path], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
    // It warns of sections that postject has added.
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return {
    architecture: MACHINES[/^\s*Machine:\s*(.*)$/m.exec(text)?.[1] ?? ''],
    needed: [...text.matchAll(/\(NEEDED\)\s+Shared library: \[([^\]]+)\]/g)].map(([, name = '']) => name),
  };
}

function isElf(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const head = Buffer.alloc(MAGIC.length);
    readSync(file, head, 0, head.length, 0);
    return head.toString('latin1') === MAGIC;
  } finally {
    closeSync(file);
  }
}
