import { describe, expect, it } from 'vitest';
import { virtualClock } from '../base/clock.ts';
import { waitForGates } from './gates.ts';

const wait = async (urls: string[], answers: Record<string, (number | Error)[]>, limit = 1000): Promise<string[]> => {
  const asked: string[] = [];
  const stop = new AbortController();
  await waitForGates(urls, {
    clock: virtualClock(),
    signal: stop.signal,
    probe: async (url) => {
      asked.push(url);
      if (asked.length >= limit) stop.abort(new Error('time is up'));
      const answer = answers[url]?.shift() ?? 200;
      if (answer instanceof Error) throw answer;
      return Promise.resolve(answer);
    },
  });
  return asked;
};

describe('readiness gates', () => {
  it('are probed immediately and pass with 2xx or 3xx [gate-poll]', async () => {
    expect(await wait(['http://a', 'http://b'], { 'http://a': [204], 'http://b': [302] })).toEqual([
      'http://a',
      'http://b',
    ]);
  });

  it('are probed again until all are ready', async () => {
    const asked = await wait(['http://a'], { 'http://a': [503, new Error('connect ECONNREFUSED'), 404, 200] });
    expect(asked).toHaveLength(4);
  });

  it('are named with their last answers when they are not ready before the deadline', async () => {
    const never = { 'http://a': Array<number>(99).fill(503), 'http://b': [200] };
    await expect(wait(['http://a', 'http://b'], never, 9)).rejects.toMatchObject({
      code: 'gate/not-ready',
      message: 'Cannot set up the pod: readiness gates are not ready: "http://a" (HTTP 503)',
    });
  });
});
