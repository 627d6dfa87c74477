import { expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { policyQueries } from '../../cache/policy-records.ts';
import { KIND_NAMES } from '../../model/kinds.ts';
import type { Query } from '../follow.ts';
import { holderLabel } from '../orch/names.ts';
import { storedObjects } from './stored-objects.ts';
import { FANNED_OUT, isFannedOut, isStoredTopic, OWN_BLOCKS, queryOfTopic, storedTopicOf, topicOf } from './topics.ts';

const self = nodeName('n1');

it('has a query for every topic, whose topic it is', () => {
  for (const topic of [...FANNED_OUT, ...KIND_NAMES.map((kind) => `resources/${kind}`)]) {
    const query = queryOfTopic(topic);
    const back = isStoredTopic(topic) && topic !== OWN_BLOCKS ? storedTopicOf : topicOf;
    expect(query === undefined ? undefined : back(query)?.topic).toBe(topic === OWN_BLOCKS ? 'block-routes' : topic);
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

it('fans out what calls need as stored objects, in the words of their own watches', () => {
  expect(
    storedObjects(self).map(({ topic, options }) => [topic, options.fieldSelector ?? options.labelSelector]),
  ).toEqual([
    ['stored/IPPool', undefined],
    ['stored/IPReservation', undefined],
    ['stored/IPAMConfiguration', 'metadata.name=default'],
    ['stored/ClusterInformation', 'metadata.name=default'],
    ['stored/Namespace', undefined],
    ['stored/own-blocks', holderLabel(self)],
  ]);
});

it('fans out what policies and routes need of all nodes, and nothing else in the words of queries', () => {
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
