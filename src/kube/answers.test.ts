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
    [500, said('', 'failed to create typed patch object (x)'), { kind: 'refusal', outcome: 'invalid' }],
    [500, said('InternalError'), { kind: 'transient', isUnsent: false }],
    [503, 'busy', { kind: 'transient', message: 'HTTP status 503 (busy)' }],
  ])('%i with %j is understood', (status, body, verdict) => {
    expect(judge(status, body)).toMatchObject(verdict);
  });

  it('names the fields that others have written', () => {
    const causes = [
      { reason: 'FieldManagerConflict', message: 'conflict with "a b" using netplug.io/v3', field: '.spec.cidr' },
      { reason: 'FieldManagerConflict', message: 'something newer', field: '.spec.disabled' },
      { reason: 'FieldValueInvalid', message: 'no', field: 'spec' },
    ];
    const heldFields = [
      { field: 'spec.cidr', owner: 'a b' },
      { field: 'spec.disabled', owner: 'something newer' },
    ];
    expect(judge(409, { ...said('Conflict'), details: { causes } })).toMatchObject({ outcome: 'conflict', heldFields });
    expect(judge(409, said('Conflict'))).toMatchObject({ heldFields: [] });
  });

  it('says how long to wait', () => {
    expect(judge(429, '', { 'retry-after': '2' })).toMatchObject({ waitMs: 2000 });
    expect(judge(503, '', { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' })).toMatchObject({ waitMs: undefined });
  });
});
