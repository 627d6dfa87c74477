import { expect, it } from 'vitest';
import { eventName, recordEvent } from './record-event.ts';
import type { OrchApi } from './orch-api.ts';

it('an event about a pod with a long name has a name that the API server takes', () => {
  expect(eventName('web-1', 'abc')).toBe('web-1.abc');
  const long = eventName(`${'a'.repeat(247)}-.bcdef`, 'abc');
  expect(long).toBe(`${'a'.repeat(247)}.abc`);
  expect(eventName('a'.repeat(253), 'abc')).toHaveLength(253);
});

it('an event steers no terminal and stays in its line', async () => {
  const written: unknown[] = [];
  const api = { create: async (request: unknown) => Promise.resolve(written.push(request)) } as unknown as OrchApi;
  const about = { apiVersion: 'v1', kind: 'Node', name: 'a' };
  const text = { reason: 'NetplugAddressesLeaked', at: '', id: 'x' } as const;
  await recordEvent(api, { about, ...text, message: 'a\n\u001b[8mb\u202e' }, new AbortController().signal);
  expect(written).toMatchObject([{ object: { message: String.raw`a\u000a\u001b[8mb\u202e` } }]);
});
