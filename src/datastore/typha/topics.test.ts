import { expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { policyQueries } from '../../cache/policy-records.ts';
import { KIND_NAMES } from '../../model/kinds.ts';
import type { Query } from '../follow.ts';
import { FANNED_OUT, isFannedOut, queryOfTopic, topicOf } from './topics.ts';

const self = nodeName('n1');

it('has a query for every topic, whose topic it is', () => {
  for (const topic of [...FANNED_OUT, ...KIND_NAMES.map((kind) => `resources/${kind}`)]) {
    const query = queryOfTopic(topic);
    expect(query === undefined ? undefined : topicOf(query)?.topic).toBe(topic);
  }
});

it('knows no topic of another name', () => {
  for (const topic of [
    '',
    'resources/',
    'resources/Pod',
    'resources/toString',
    'derived/Pod',
    'node-blocks',
    'secrets',
  ])
    expect(queryOfTopic(topic)).toBeUndefined();
});

it('fans out what policies and routes need of all nodes, and nothing that calls need', () => {
  const kept = [...policyQueries(self), { kind: 'node-blocks', node: self } satisfies Query].filter(
    (query) => !isFannedOut(query),
  );
  expect(kept).toEqual([
    { kind: 'resources', of: 'Node', name: self },
    { kind: 'derived-resources', from: 'Namespace' },
    { kind: 'node-blocks', node: self },
  ]);
  expect(isFannedOut({ kind: 'resources', of: 'IPPool' })).toBe(false);
});
