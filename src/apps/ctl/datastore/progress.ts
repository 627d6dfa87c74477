import type { Io } from '../ports.ts';

const WIDTH = 40;

export interface Progress extends Disposable {
  readonly step: () => void;
}

/** A bar on standard error, where that is a terminal; nothing elsewhere. It is gone when it is disposed of. */
export function progressBar({
  io,
  what,
  total,
}: {
  readonly io: Io;
  readonly what: string;
  readonly total: number;
}): Progress {
  let [done, shown] = [0, ''];
  const draw = (): void => {
    const full = total === 0 ? WIDTH : Math.floor((done * WIDTH) / total);
    const line = `${what} [${'#'.repeat(full)}${'.'.repeat(WIDTH - full)}] ${String(done)}/${String(total)}`;
    // A line for each thing would be slower than the things.
    const isWorth = shown === '' || done === total || full !== shown.split('#').length - 1;
    if (!io.isErrTty || !isWorth) return;
    io.stderr(`\r${line}`);
    shown = line;
  };
  draw();
  return {
    step: () => {
      done += 1;
      draw();
    },
    [Symbol.dispose]: () => {
      if (shown !== '') io.stderr(`\r${' '.repeat(shown.length)}\r`);
    },
  };
}
