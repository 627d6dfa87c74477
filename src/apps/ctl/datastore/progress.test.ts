import { describe, expect, it } from 'vitest';
import { progressBar } from './progress.ts';

/** What is written to standard error while 100 things are done, each piece of it. */
function drawn({ isErrTty, total = 100 }: { readonly isErrTty: boolean; readonly total?: number }): readonly string[] {
  const pieces: string[] = [];
  const io = {
    stdin: async () => Promise.resolve(''),
    stdout: () => undefined,
    stderr: (text: string) => void pieces.push(text),
    isTty: false,
    isErrTty,
    screen: { columns: 80, mayColour: false },
  };
  using progress = progressBar({ io, what: 'importing', total });
  for (let done = 0; done < total; done += 1) progress.step();
  return pieces;
}

describe('a progress bar', () => {
  it('draws nothing where standard error is no terminal', () => {
    expect(drawn({ isErrTty: false })).toEqual([]);
  });

  it('is one line that is written over, when it grows and at the end, and wiped', () => {
    const pieces = drawn({ isErrTty: true });
    const [first, last, wiped] = [pieces[0], pieces.at(-2), pieces.at(-1)];
    expect(first).toBe(`\rimporting [${'.'.repeat(40)}] 0/100`);
    expect(last).toBe(`\rimporting [${'#'.repeat(40)}] 100/100`);
    expect(wiped).toBe(`\r${' '.repeat((last ?? '').length - 1)}\r`);
    expect(pieces).toHaveLength(42);
    expect(pieces.join('')).not.toContain('\n');
  });

  it('is full when there is nothing to do', () => {
    expect(drawn({ isErrTty: true, total: 0 })[0]).toBe(`\rimporting [${'#'.repeat(40)}] 0/0`);
  });
});
