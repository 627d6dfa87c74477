import { expect, it } from 'vitest';
import type { AgentConfiguration, AgentConfigurationSpec } from '../model/agent-configuration.ts';
import { nodeName } from '../../test/support/fixtures.ts';
import { agentSettings } from './agent-settings.ts';

const NODE = nodeName('a');

function configured(name: string, spec: AgentConfigurationSpec): AgentConfiguration {
  return { apiVersion: 'netplug.io/v3', kind: 'AgentConfiguration', metadata: { name }, spec };
}

function sourceOf(setting: string, { explained }: ReturnType<typeof agentSettings>): string | undefined {
  return explained.find(({ name }) => name === setting)?.source;
}

it('prefers the environment to the configuration of the node, and that to the default one', () => {
  const found = agentSettings({ NETPLUG_WARM_POOL_SIZE: '8' }, NODE, [
    configured('default', { warmPoolSize: 1, policyLogPrefix: 'd', vxlanChecksums: 'offload' }),
    configured('node.a', { warmPoolSize: 2, policyLogPrefix: 'n' }),
    configured('node.b', { policyLogPrefix: 'other', keepEstablishedFlows: true }),
  ]);
  expect(found.settings).toMatchObject({
    warmPoolSize: 8,
    policyLogPrefix: 'n',
    vxlanChecksums: 'offload',
    keepEstablishedFlows: false,
  });
  expect(
    ['warmPoolSize', 'policyLogPrefix', 'vxlanChecksums', 'keepEstablishedFlows'].map((name) => sourceOf(name, found)),
  ).toEqual(['NETPLUG_WARM_POOL_SIZE', 'AgentConfiguration node.a', 'AgentConfiguration default', 'built in']);
});

it.each([3784, 4784])('has UDP port %i of BFD among the failsafe ports of both directions', (port) => {
  const { failsafeInboundHostPorts, failsafeOutboundHostPorts } = agentSettings({}, 'a', []).settings;
  for (const ports of [failsafeInboundHostPorts, failsafeOutboundHostPorts])
    expect(ports).toContainEqual({ protocol: 'UDP', port });
});

it('takes an empty list of failsafe ports as none, and an empty variable as not set', () => {
  const found = agentSettings({ NETPLUG_VXLAN_CHECKSUMS: '' }, NODE, [
    configured('default', { failsafeInboundHostPorts: [], vxlanChecksums: 'software' }),
  ]);
  expect(found.settings.failsafeInboundHostPorts).toEqual([]);
  expect(found.settings.failsafeOutboundHostPorts).toContainEqual({ protocol: 'UDP', port: 53 });
  expect(found.settings.vxlanChecksums).toBe('software');
});

it('refuses a variable that is malformed', () => {
  expect(() => agentSettings({ NETPLUG_WARM_POOL_SIZE: 'many' }, NODE, [])).toThrow('NETPLUG_WARM_POOL_SIZE');
});
