import type { Io } from '../ports.ts';
import { ownSequence } from '../screen.ts';

const WIDTH = 40;
const LINE_START = ownSequence('\r');

export interface Progress extends Disposable {
  readonly step: () => void;
}

/** Draws a progress bar on standard error if that is a terminal; disposing of it erases the bar. */
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
    // Redraws only when the bar grows: drawing each step would be slower than the steps.
    const isDue = shown === '' || done === total || full !== shown.split('#').length - 1;
    if (!io.isErrTty || !isDue) return;
    io.stderr(`${LINE_START}${line}`);
    shown = line;
  };
  draw();
  return {
    step: () => {
      done += 1;
      draw();
    },
    [Symbol.dispose]: () => {
      if (shown !== '') io.stderr(`${LINE_START}${' '.repeat(shown.length)}${LINE_START}`);
    },
  };
}
