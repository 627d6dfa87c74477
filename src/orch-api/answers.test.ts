import { describe, expect, it } from 'vitest';
import { judgeAnswer } from './answers.ts';

const judge = (status: number, body: unknown, headers = {}): ReturnType<typeof judgeAnswer> =>
  judgeAnswer({ status, headers, text: typeof body === 'string' ? body : JSON.stringify(body) });
const said = (reason: string, message = 'm'): object => ({ kind: 'Status', reason, message });

describe('an answer of the API', () => {
  it.each([
    [200, { a: 1 }, { kind: 'ok', body: { a: 1 } }],
    [201, '', { kind: 'foreign' }],
    [200, '<html>', { kind: 'foreign' }],
    [301, '', { kind: 'foreign' }],
    [401, said('Unauthorized'), { kind: 'unauthorized' }],
    [403, said('Forbidden', 'not you'), { kind: 'forbidden', message: 'not you' }],
    [404, said('NotFound'), { kind: 'refusal', outcome: 'not-found' }],
    [404, '404 page not found\n', { kind: 'foreign' }],
    [404, said('NotFound', 'the server could not find the requested resource'), { kind: 'foreign' }],
    [409, said('AlreadyExists'), { kind: 'refusal', outcome: 'exists' }],
    [409, said('Conflict'), { kind: 'refusal', outcome: 'conflict' }],
    [410, said('Expired'), { kind: 'refusal', outcome: 'gone' }],
    [422, said('Invalid'), { kind: 'refusal', outcome: 'invalid' }],
    [429, '', { kind: 'transient', isUnsent: true, waitMs: undefined }],
    [500, said('InternalError'), { kind: 'transient', isUnsent: false }],
    [503, 'busy', { kind: 'transient', message: 'HTTP status 503 (busy)' }],
  ])('%i with %j is understood', (status, body, verdict) => {
    expect(judge(status, body)).toMatchObject(verdict);
  });

  it('says how long to wait', () => {
    expect(judge(429, '', { 'retry-after': '2' })).toMatchObject({ waitMs: 2000 });
    expect(judge(503, '', { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' })).toMatchObject({ waitMs: undefined });
  });
});
