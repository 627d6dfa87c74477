import { expect, it } from 'vitest';
import { eventName } from './record-event.ts';

it('an event about a pod with a long name has a name that the API server takes', () => {
  expect(eventName('web-1', 'abc')).toBe('web-1.abc');
  const long = eventName(`${'a'.repeat(247)}-.bcdef`, 'abc');
  expect(long).toBe(`${'a'.repeat(247)}.abc`);
  expect(eventName('a'.repeat(253), 'abc')).toHaveLength(253);
});
