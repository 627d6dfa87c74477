import { describe, expect, it } from 'vitest';
import { OBJECTS, RECORDS, recordsOf } from '../../../test/fuzz/followed-records.ts';
import type { FollowedRecord } from '../follow.ts';
import { readRecordText, recordText } from './record-text.ts';

describe('the text of a record', () => {
  it('gives back every record that does not cross as it is stored', () => {
    const records = RECORDS.filter(({ stored }) => stored === undefined);
    expect(records.length).toBeGreaterThan(20);
    for (const record of records)
      expect(readRecordText(record.key, recordText(record), { kind: 'pods' })).toEqual(record);
  });

  it('gives back what users wrote as the reader decodes it, without versions', () => {
    for (const [query, object] of OBJECTS) {
      const [record] = recordsOf(query, object);
      expect(record?.value).toBeDefined();
      const { stored: _, ...sent } = record as FollowedRecord;
      const read = readRecordText(sent.key, recordText(record as FollowedRecord), query);
      const { resourceVersion: _version, ...metadata } = (
        sent.value as unknown as { metadata: Record<string, unknown> }
      ).metadata;
      expect(read).toEqual({ ...sent, version: '', value: { ...sent.value, metadata } });
    }
  });

  it('keeps a field that only a newer release knows', () => {
    const [query, object] = OBJECTS[0]!;
    const [record] = recordsOf(query, object);
    expect(recordText(record!)).toContain('"newer":{"field":1}');
  });

  it('is the same when nothing but the version has changed', () => {
    for (const [query, object] of OBJECTS) {
      const later = { ...object, metadata: { ...object.metadata, resourceVersion: '99' } };
      expect(recordsOf(query, later).map(recordText)).toEqual(recordsOf(query, object).map(recordText));
    }
  });

  it('is refused where it is no record', () => {
    for (const text of [
      '',
      'null',
      '{"kind":"pod"}',
      '{"kind":"resource"}',
      '{"kind":"resource","which":{"kind":"Pod","name":"x"}}',
    ])
      expect(() => readRecordText('k', text, { kind: 'pods' })).toThrow(
        expect.objectContaining({ code: 'stream/protocol' }),
      );
  });

  it('is a problem where this release cannot read the value', () => {
    for (const kind of ['block', 'route', 'endpoint', 'service']) {
      const record = readRecordText('k', JSON.stringify({ kind, value: { cidr: 'x' } }), { kind: 'pods' });
      expect(record?.value).toBeUndefined();
      expect(record?.problem).toBeDefined();
    }
  });
});
