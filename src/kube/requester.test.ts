import { describe, expect, it } from 'vitest';
import { API_LIMITS } from './requester.ts';

describe('the limits of requests to the API of the orchestrator', () => {
  it('notice a watch that carries nothing soon after the second bookmark that is due', () => {
    const bookmarkMs = 60_000;
    expect(API_LIMITS.silenceMs).toBeGreaterThan(bookmarkMs);
    expect(API_LIMITS.silenceMs).toBeLessThan(2 * bookmarkMs);
  });

  it('end a try well before a call of the runtime does', () => {
    expect(API_LIMITS.answerMs).toBeLessThanOrEqual(10_000);
    expect(API_LIMITS.retryMs).toBeLessThanOrEqual(30_000);
  });
});
