import { expect, it } from 'vitest';
import { asNodeProblems, PLUGIN_PROBLEMS } from './node-report.ts';
import { type NodeFailures, pluginFailures, readyCondition, unavailableCondition } from './node-readiness.ts';

const NONE: NodeFailures = { calls: [], network: [], plugin: [], pending: [] };
const REASON = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;

it.each([
  ['NetplugServes', NONE],
  ['PluginUnusable', { ...NONE, plugin: ['another file is read first'], network: ['routes: none'] }],
  ['CallsFailing', { ...NONE, calls: ['the datastore is being read'], network: ['routes: none'] }],
  ['NetworkFailing', { ...NONE, network: ['routes: none'], pending: ['the conflist is not installed yet'] }],
  ['PluginNotInstalled', { ...NONE, pending: ['the conflist is not installed yet'] }],
])('has the reason %s', (reason, failures) => {
  const condition = readyCondition(failures);
  expect(condition).toMatchObject({ reason, status: reason === 'NetplugServes' ? 'True' : 'False' });
  expect(condition.reason).toMatch(REASON);
});

it('names the first three failures, how many more there are, and no control characters', () => {
  const network = ['a', 'b\u001b[2J', 'c', 'd', 'e'];
  const message = 'a; b\\u001b[2J; c; 2 more: netplugctl node status';
  expect(readyCondition({ ...NONE, network }).message).toBe(message);
  expect(unavailableCondition(network)).toMatchObject({ status: 'True', message });
  expect(unavailableCondition(['x'.repeat(5000)]).message).toHaveLength(1000);
});

it('counts what keeps the runtime from the plugin, and no other problem of its files', () => {
  const problems = Object.values(PLUGIN_PROBLEMS).flatMap((kind) => asNodeProblems(kind, [kind.code]));
  expect(pluginFailures(problems)).toEqual([
    'plugin/unusable',
    'plugin/shadowed',
    'plugin/other-folder',
    'plugin/without-program',
  ]);
});
