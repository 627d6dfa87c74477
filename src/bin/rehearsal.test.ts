import { createHook } from 'node:async_hooks';
import { expect, it } from 'vitest';
import { rehearse } from './rehearsal.ts';

it('serves its calls without a timer of Node, and leaves the functions that start timers as they are', async () => {
  const before = [setTimeout, setInterval];
  const types = new Set<string>();
  const hook = createHook({ init: (_id, type) => types.add(type) }).enable();
  try {
    await rehearse();
  } finally {
    hook.disable();
  }
  expect([setTimeout, setInterval]).toEqual(before);
  expect(types).toContain('TCPWRAP');
  expect(types).not.toContain('Timeout');
});
