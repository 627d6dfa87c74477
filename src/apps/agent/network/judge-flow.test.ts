import { describe, expect, it } from 'vitest';
import { globalPolicy, hostEndpoint, podOf } from '../../../../test/support/policy-arbitraries.ts';
import { NODE, PolicyCluster } from '../../../../test/support/policy-cluster.ts';
import type { FlowTuple, TrackedFlow } from '../../../dataplane/flow-table.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { formatAddress, parseAddress } from '../../../net/address.ts';
import { failsafePorts } from '../../../policy/open-ports.ts';
import { hostEndpointsToward } from './host-endpoints-toward.ts';
import { flowJudge } from './judge-flow.ts';

const FAILSAFE = failsafePorts({
  failsafeInboundHostPorts: [{ protocol: 'TCP', port: 22 }],
  failsafeOutboundHostPorts: [],
});
const LINKS = {
  interfaces: [
    { name: 'eth0', addresses: ['198.51.100.1'] },
    { name: 'eth1', addresses: ['203.0.113.1'] },
  ],
  tunnels: [],
};
const DEVICES = [
  ['198.51.100.', 'eth0'],
  ['203.0.113.', 'eth1'],
] as const;

function tuple(source: string, destination: string, ports: readonly [number, number]): FlowTuple {
  const [sourcePort, destinationPort] = ports;
  return {
    source: parseAddress(source),
    destination: parseAddress(destination),
    protocol: 6,
    sourcePort,
    destinationPort,
  };
}

/** A flow to a port, translated to `to` if given. */
function flow(source: string, destination: string, port: number, to?: readonly [string, number]): TrackedFlow {
  const [address, own] = to ?? [destination, port];
  return {
    original: tuple(source, destination, [40_000, port]),
    reply: tuple(address, source, [own, 40_000]),
    handle: new Uint8Array(),
    isReplied: true,
  };
}

const FLOWS = {
  'outside > node': flow('198.51.100.9', '198.51.100.1', 80),
  'outside > node, failsafe': flow('198.51.100.9', '198.51.100.1', 22),
  'side > node': flow('203.0.113.9', '198.51.100.1', 80),
  'node > outside': flow('198.51.100.1', '198.51.100.9', 80),
  'node > node': flow('198.51.100.1', '203.0.113.1', 80),
  'outside > pod': flow('198.51.100.9', '10.65.0.1', 80),
  'outside > service > pod': flow('198.51.100.9', '198.51.100.1', 8080, ['10.65.0.1', 80]),
  'node > pod': flow('198.51.100.1', '10.65.0.1', 80),
  'outside > side': flow('198.51.100.9', '203.0.113.9', 80),
};

async function denied(...resources: readonly AnyResource[]): Promise<readonly string[]> {
  return deniedWith({ areSettingsKnown: true }, resources);
}

async function deniedWith(
  { areSettingsKnown }: { readonly areSettingsKnown: boolean },
  resources: readonly AnyResource[],
): Promise<readonly string[]> {
  const cluster = new PolicyCluster();
  cluster.putNamespace('x');
  cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
  for (const resource of resources) cluster.put(resource);
  const view = cluster.state;
  const flows = Object.entries(FLOWS);
  const isAllowed = await flowJudge(
    view,
    flows.map(([, each]) => each),
    {
      node: NODE,
      hostAddresses: new Set(['127.0.0.1', '198.51.100.1', '203.0.113.1']),
      endpointToHost: 'Accept',
      open: FAILSAFE,
      findHostEndpoints: async (remotes) =>
        hostEndpointsToward(remotes, {
          view,
          node: NODE,
          links: LINKS,
          areSettingsKnown,
          host: {
            lookUp: async (address) => {
              const [, device = 'lo'] = DEVICES.find(([prefix]) => formatAddress(address).startsWith(prefix)) ?? [];
              return Promise.resolve({ device, source: undefined });
            },
          },
        }),
    },
  );
  return flows.filter(([, each]) => !isAllowed(each)).map(([name]) => name);
}

const onHosts = (spec: object): AnyResource =>
  globalPolicy('g', {}, { selector: "host == 'yes'", applyOnForward: true, types: ['Ingress'], ...spec });

describe('flows of a node with host endpoints', () => {
  it('end at the interfaces of an endpoint that allows nothing, except failsafe ports and what the node forwards', async () => {
    expect(await denied()).toEqual([]);
    expect(await denied(hostEndpoint('all', { interfaceName: '*' }))).toEqual([
      'outside > node',
      'side > node',
      'node > outside',
    ]);
    expect(await denied(hostEndpoint('one', { interfaceName: 'eth1' }))).toEqual(['side > node']);
  });

  it('go on until the settings of the agent are known', async () => {
    const all = hostEndpoint('all', { interfaceName: '*' });
    expect(await deniedWith({ areSettingsKnown: false }, [all])).toEqual([]);
  });

  it('end when the node forwards them and a policy with applyOnForward denies', async () => {
    const open = hostEndpoint('one', { interfaceName: 'eth0', profiles: ['netplug-default-allow'] });
    expect(await denied(open, onHosts({ ingress: [{ action: 'Deny' }] }))).toEqual([
      'outside > node',
      'outside > pod',
      'outside > service > pod',
      'outside > side',
    ]);
    const egress = { types: ['Egress'], egress: [{ action: 'Deny' }], ingress: [] };
    const side = hostEndpoint('side', { interfaceName: 'eth1' });
    expect(await denied(side, onHosts(egress))).toEqual(['side > node', 'outside > side']);
  });

  it('are judged before translation by policies with preDNAT', async () => {
    const open = hostEndpoint('one', { interfaceName: 'eth0', profiles: ['netplug-default-allow'] });
    const service = [{ action: 'Deny', protocol: 'TCP', destination: { ports: [8080] } }];
    expect(await denied(open, onHosts({ preDNAT: true, ingress: service }))).toEqual(['outside > service > pod']);
  });
});
