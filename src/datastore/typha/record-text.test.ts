import { describe, expect, it } from 'vitest';
import { OBJECTS, RECORDS, recordsOf } from '../../../test/fuzz/followed-records.ts';
import type { FollowedRecord } from '../follow.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { topicOf } from './topics.ts';
import { readRecordText, recordText } from './record-text.ts';

describe('the text of a record', () => {
  it('gives back every record that does not cross as it is stored', () => {
    const records = RECORDS.filter(({ stored }) => stored === undefined);
    expect(records.length).toBeGreaterThan(20);
    for (const record of records)
      expect(readRecordText('pods', { key: record.key, text: recordText('pods', record) })).toEqual(record);
  });

  it('gives back what users wrote as the reader decodes it, without versions', () => {
    for (const [query, object] of OBJECTS) {
      const [record] = recordsOf(query, object);
      const { topic = '' } = topicOf(query) ?? {};
      expect(record?.value).toBeDefined();
      const { stored: _, ...sent } = record as FollowedRecord;
      const read = readRecordText(topic, { key: sent.key, text: recordText(topic, record as FollowedRecord) });
      const { resourceVersion: _version, ...metadata } = (
        sent.value as unknown as { metadata: Record<string, unknown> }
      ).metadata;
      expect(read).toEqual({ ...sent, version: '', value: { ...sent.value, metadata } });
    }
  });

  it('keeps a field that only a newer release knows', () => {
    const [query, object] = OBJECTS[0]!;
    const [record] = recordsOf(query, object);
    expect(recordText('pods', record!)).toContain('"newer":{"field":1}');
  });

  it('is the same when nothing but the version has changed', () => {
    for (const [query, object] of OBJECTS) {
      const later = { ...object, metadata: { ...object.metadata, resourceVersion: '99' } };
      const texts = (of: ApiObject): string[] => recordsOf(query, of).map((record) => recordText('pods', record));
      expect(texts(later)).toEqual(texts(object));
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
      expect(() => readRecordText('pods', { key: 'k', text })).toThrow(
        expect.objectContaining({ code: 'stream/protocol' }),
      );
  });

  it('is a problem where this release cannot read the value', () => {
    for (const kind of ['block', 'route', 'endpoint', 'service']) {
      const record = readRecordText('pods', { key: 'k', text: JSON.stringify({ kind, value: { cidr: 'x' } }) });
      expect(record?.value).toBeUndefined();
      expect(record?.problem).toBeDefined();
    }
  });
});
