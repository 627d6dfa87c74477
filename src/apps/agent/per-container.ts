import type { Clock } from '../../base/clock.ts';
import { SerialQueue } from '../../base/serial-queue.ts';
import type { ServeCall } from './conversation.ts';
import type { CallAnswer } from './wire.ts';

/** Serves a call unless `isDue` returns false once the earlier calls of its container have ended. */
export type ServeOrdered = (...call: [...Parameters<ServeCall>, isDue?: () => boolean]) => ReturnType<ServeCall>;

const SKIPPED: CallAnswer = { status: 0, stdout: '', stderr: '' };

/**
 * Returns a function that serves calls of one container one after the other: after a timeout a runtime may send the next
 * call while the first one is still undone. `onWait` receives how long a call waited, in milliseconds.
 */
export function onePerContainer(serve: ServeCall, clock: Clock, onWait: (ms: number) => void): ServeOrdered {
  const calls = new SerialQueue();
  return async (request, gone, isDue = () => true) => {
    const { CNI_CONTAINERID: container = '' } = request.env;
    if (container === '') return serve(request, gone);
    const sinceMs = clock.monotonic();
    return calls.run(async () => {
      onWait(clock.monotonic() - sinceMs);
      return isDue() ? serve(request, gone) : SKIPPED;
    }, container);
  };
}
