import { expect, it } from 'vitest';
import { followedPool } from '../../../test/support/follow-source.ts';
import { recordText } from './record-text.ts';
import { applyLines, type TopicCopy } from './topic-copy.ts';

it('applies no line of a part of which one cannot be read: the next server sends all that differs', () => {
  const copy: TopicCopy = new Map();
  const good = { key: 'a', text: recordText('resources/IPPool', followedPool('a')) };
  const options = { topic: 'resources/IPPool', known: copy };
  expect(() => applyLines(copy, [good, { key: 'b', text: '{"kind":"new"}' }], options)).toThrow(
    expect.objectContaining({ code: 'stream/protocol' }),
  );
  expect([...copy.keys()]).toEqual([]);
  expect(applyLines(copy, [good], options)).toHaveLength(1);
});
