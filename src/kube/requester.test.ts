import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS } from './requester.ts';

describe('the limits of requests to the API of the orchestrator', () => {
  it('notice a watch that carries nothing soon after the second bookmark that is due', () => {
    const bookmarkMs = 60_000;
    expect(DEFAULT_LIMITS.silenceMs).toBeGreaterThan(bookmarkMs);
    expect(DEFAULT_LIMITS.silenceMs).toBeLessThan(2 * bookmarkMs);
  });

  it('end a try well before a call of the runtime does', () => {
    expect(DEFAULT_LIMITS.answerMs).toBeLessThanOrEqual(10_000);
    expect(DEFAULT_LIMITS.patienceMs).toBeLessThanOrEqual(30_000);
  });
});
