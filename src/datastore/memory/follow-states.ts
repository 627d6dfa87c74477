import { NetplugError } from '../../base/errors.ts';
import { Channel } from '../../base/channel.ts';
import type { MemoryDatabase, MemoryState } from './memory-database.ts';

/** The state of now and every later one, each with the one before. `look` lets a state be seen, or throws when the thread is lost. */
export async function* followStates(
  database: MemoryDatabase,
  look: (state: MemoryState) => Promise<MemoryState>,
  signal: AbortSignal,
): AsyncGenerator<{ readonly before: MemoryState | undefined; readonly state: MemoryState }> {
  const states = new Channel<MemoryState>();
  const end = (): void => states.close();
  signal.addEventListener('abort', end, { once: true });
  states.push(database.state());
  const stop = database.listen(
    (state) => states.push(state),
    () => states.fail(new NetplugError('store/unavailable', 'Cannot follow the datastore: a backup was restored')),
  );
  try {
    let before: MemoryState | undefined;
    for await (const next of states) {
      const state = await look(next);
      yield { before, state };
      before = state;
    }
  } finally {
    stop();
    signal.removeEventListener('abort', end);
  }
}
