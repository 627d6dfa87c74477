import { describe, expect, it } from 'vitest';
import { forTerminal } from '../screen.ts';
import { progressBar } from './progress.ts';

/** Returns each write to standard error during 100 steps. */
function drawn({ isErrTty, total = 100 }: { readonly isErrTty: boolean; readonly total?: number }): readonly string[] {
  const pieces: string[] = [];
  const io = {
    stdin: async () => Promise.resolve(''),
    stdout: () => undefined,
    stderr: (text: string) => void pieces.push(forTerminal(text)),
    isTty: false,
    isErrTty,
    screen: { columns: 80, mayColour: false },
  };
  using progress = progressBar({ io, what: 'importing', total });
  for (let done = 0; done < total; done += 1) progress.step();
  return pieces;
}

describe('a progress bar', () => {
  it('draws nothing unless standard error is a terminal', () => {
    expect(drawn({ isErrTty: false })).toEqual([]);
  });

  it('overwrites one line whenever it grows, and erases it at the end', () => {
    const pieces = drawn({ isErrTty: true });
    const [first, last, wiped] = [pieces[0], pieces.at(-2), pieces.at(-1)];
    expect(first).toBe(`\rimporting [${'.'.repeat(40)}] 0/100`);
    expect(last).toBe(`\rimporting [${'#'.repeat(40)}] 100/100`);
    expect(wiped).toBe(`\r${' '.repeat((last ?? '').length - 1)}\r`);
    expect(pieces).toHaveLength(42);
    expect(pieces.join('')).not.toContain('\n');
  });

  it('is full when there are no steps', () => {
    expect(drawn({ isErrTty: true, total: 0 })[0]).toBe(`\rimporting [${'#'.repeat(40)}] 0/0`);
  });
});
