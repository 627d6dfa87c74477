import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import { expect, it } from 'vitest';
import { rehearse } from './rehearsal.ts';

it('serves its calls without a timer of Node, and leaves the functions that start timers as they are', async () => {
  const before = [setTimeout, setInterval];
  const types = new Set<string>();
  // The runner of the tests has timers of its own.
  const rehearsal = new AsyncLocalStorage<true>();
  const hook = createHook({ init: (_id, type) => rehearsal.getStore() === true && types.add(type) }).enable();
  try {
    await rehearsal.run(true, rehearse);
  } finally {
    hook.disable();
  }
  expect([setTimeout, setInterval]).toEqual(before);
  expect(types).toContain('TCPWRAP');
  expect(types).not.toContain('Timeout');
});
