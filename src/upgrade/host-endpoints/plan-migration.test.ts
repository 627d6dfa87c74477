import { describe, expect, it } from 'vitest';
import { automaticHostEndpointOf, hostEndpointOf, nodeOf } from '../../../test/support/fixtures.ts';
import type { ControllersConfiguration } from '../../model/controllers-configuration.ts';
import type { ResourcePlan } from '../resource-steps.ts';
import { type MigrationFacts, type MigrationOptions, planMigration } from './plan-migration.ts';

const KEPT_BY_NETPLUG: MigrationOptions = {
  upgradeLabel: 'netplug/host-endpoint-upgrade',
  nodeManager: 'netplug',
  removal: 'when-replaced',
};
const ENABLED: ControllersConfiguration = {
  apiVersion: 'netplug.io/v3',
  kind: 'ControllersConfiguration',
  metadata: { name: 'default' },
  spec: { controllers: { node: { hostEndpoint: { autoCreate: 'Enabled' } } } },
};

function planOf(facts: Partial<MigrationFacts>, options: Partial<MigrationOptions> = {}): ResourcePlan {
  return planMigration(
    { endpoints: [], nodes: [nodeOf('n1'), nodeOf('n2')], configuration: undefined, ...facts },
    { ...KEPT_BY_NETPLUG, ...options },
  );
}
const textsOf = (plan: ResourcePlan): string[][] => plan.stages.map(({ steps }) => steps.map(({ text }) => text));

describe('the plan of a migration to automatic host endpoints', () => {
  it('copies every label, turns creation on, and waits for what replaces the old ones [up-autohep]', () => {
    const old = hostEndpointOf('a', 'n1', {
      labels: { role: 'gateway', empty: '', 'netplug/host-endpoint-upgrade': '' },
    });
    const plan = planOf({ endpoints: [old], nodes: [nodeOf('n1', { zone: 'a' })] });
    expect(textsOf(plan)).toEqual([
      ['change Node "n1": label role=gateway empty='],
      ['create ControllersConfiguration "default"'],
      [
        'HostEndpoint "a" stays until netplug-orch-controllers has made HostEndpoint "n1-auto-hep" with the labels role=gateway empty=',
      ],
    ]);
    expect(plan.stages[0]?.steps[0]).toMatchObject({
      after: { metadata: { labels: { zone: 'a', role: 'gateway', empty: '' } } },
    });
    expect(plan.stages[1]?.steps[0]).toMatchObject({ after: ENABLED });
  });

  it('keeps what the configuration of the controllers says already', () => {
    const configuration = {
      ...ENABLED,
      spec: { logSeverityScreen: 'Debug', controllers: { node: { syncLabels: 'Disabled' } } },
    } as const;
    const plan = planOf({ endpoints: [hostEndpointOf('a', 'n1')], configuration });
    expect(plan.stages[1]?.steps[0]).toMatchObject({
      text: 'change ControllersConfiguration "default": spec.controllers.node.hostEndpoint.autoCreate = Enabled',
      before: configuration,
      after: {
        spec: {
          logSeverityScreen: 'Debug',
          controllers: { node: { syncLabels: 'Disabled', hostEndpoint: { autoCreate: 'Enabled' } } },
        },
      },
    });
  });

  it('deletes an old one when the automatic one of its node has its labels, and not before', () => {
    const endpoints = [
      hostEndpointOf('a', 'n1', { labels: { role: 'x' } }),
      hostEndpointOf('b', 'n2', { labels: { role: 'x' } }),
      automaticHostEndpointOf('n1', { role: 'x', zone: 'a' }),
      automaticHostEndpointOf('n2'),
    ];
    const nodes = [nodeOf('n1', { role: 'x' }), nodeOf('n2', { role: 'x' })];
    const facts = { endpoints, nodes, configuration: ENABLED };
    expect(textsOf(planOf(facts))).toEqual([
      [],
      [],
      ['delete HostEndpoint "a"', expect.stringContaining('HostEndpoint "b" stays until') as string],
    ]);
    expect(textsOf(planOf(facts, { removal: 'at-once' }))[2]).toEqual([
      'delete HostEndpoint "a"',
      'delete HostEndpoint "b"',
    ]);
  });

  it.each([
    ['an automatic one', automaticHostEndpointOf('n1', { role: 'x' })],
    ['one for a single interface', hostEndpointOf('a', 'n1', { interfaceName: 'eth0', labels: { role: 'x' } })],
  ])('leaves %s alone [up-autohep]', (_, endpoint) => {
    expect(textsOf(planOf({ endpoints: [endpoint] }))).toEqual([[], [], []]);
  });

  it.each([
    [
      'a label without the name',
      hostEndpointOf('n1-own', 'n1', { labels: { 'netplug/created-by': 'netplug-orch-controllers' } }),
    ],
    ['a name without the label', hostEndpointOf('n1-auto-hep', 'n1')],
  ])('does not take %s for an automatic one [up-autohep]', (_, endpoint) => {
    expect(textsOf(planOf({ endpoints: [endpoint] }, { removal: 'at-once' }))[2]).toEqual([
      `delete HostEndpoint "${endpoint.metadata.name}"`,
    ]);
  });

  it('names the command where the orchestrator keeps the nodes', () => {
    const old = hostEndpointOf('a', 'n1', { labels: { role: 'gateway', empty: '' } });
    expect(planOf({ endpoints: [old] }, { nodeManager: 'orchestrator' }).stages[0]?.steps[0]).toMatchObject({
      kind: 'command',
      command: ['kubectl', 'label', 'node', 'n1', 'role=gateway', 'empty='],
    });
  });

  it.each([
    [
      'two on one node contradict each other',
      [hostEndpointOf('a', 'n1', { labels: { role: 'x' } }), hostEndpointOf('b', 'n1', { labels: { role: 'y' } })],
      'HostEndpoint "b": label role is "y", and "x" at another one of node "n1"',
    ],
    [
      'the node contradicts one',
      [hostEndpointOf('a', 'n2', { labels: { zone: 'b' } })],
      'Node "n2": label zone is "a" there, and "b" at its host endpoint',
    ],
    ['there is no such node', [hostEndpointOf('a', 'n3')], 'HostEndpoint "a": there is no node "n3"'],
  ])('is refused when %s', (_, endpoints, text) => {
    expect(() => planOf({ endpoints, nodes: [nodeOf('n1'), nodeOf('n2', { zone: 'a' })] })).toThrow(text);
  });

  it('says what no automatic one has', () => {
    const old = hostEndpointOf('a', 'n1', {
      ports: [{ name: 'ssh', protocol: 'TCP', port: 22 }],
      profiles: ['strict', 'netplug-default-allow'],
    });
    expect(planOf({ endpoints: [old] }).notes).toEqual([
      'Automatic host endpoints do not carry these fields of HostEndpoint "a": the names of ports ssh and the profiles strict',
    ]);
  });
});
