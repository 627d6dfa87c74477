import type { Clock } from '../../base/clock.ts';
import { SerialQueue } from '../../base/serial-queue.ts';
import type { ServeCall } from './conversation.ts';

/**
 * Returns a function that serves calls of one container one after the other: after a timeout a runtime may send the next
 * call while the first one is still undone. `onWait` receives how long a call waited, in milliseconds.
 */
export function onePerContainer(serve: ServeCall, clock: Clock, onWait: (ms: number) => void): ServeCall {
  const calls = new SerialQueue();
  return async (request, gone) => {
    const { CNI_CONTAINERID: container = '' } = request.env;
    if (container === '') return serve(request, gone);
    const sinceMs = clock.monotonic();
    return calls.run(async () => {
      onWait(clock.monotonic() - sinceMs);
      return serve(request, gone);
    }, container);
  };
}
