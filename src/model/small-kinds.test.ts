import { describe, expect, it } from 'vitest';
import { problemLine } from '../base/problem.ts';
import { decodeResource } from './decode-resource.ts';
import { API_VERSION } from './resource.ts';

function problemsOf(kind: string, spec: object): string[] {
  const decoded = decodeResource({ apiVersion: API_VERSION, kind, metadata: { name: 'default' }, spec });
  return 'problems' in decoded ? decoded.problems.map(problemLine) : [];
}

describe('host endpoints', () => {
  it.each([
    { node: 'n1', interfaceName: '*' },
    { node: 'n1', interfaceName: 'eth0.100' },
    { node: 'n1', expectedIPs: ['192.0.2.1', 'fd00::1'] },
    { node: 'n1', interfaceName: 'eth0', ports: [{ name: 'ssh', protocol: 'TCP', port: 22 }], profiles: ['a', 'b'] },
  ])('may be %j', (spec) => {
    expect(problemsOf('HostEndpoint', spec)).toEqual([]);
  });

  it.each([
    [{ interfaceName: '*' }, 'spec.node: missing'],
    [{ node: '', interfaceName: '*' }, 'spec.node: found ""'],
    [{ node: 'n1' }, 'spec.interfaceName: missing'],
    [{ node: 'n1', expectedIPs: [] }, 'spec.interfaceName: missing'],
    [{ node: 'n1', interfaceName: 'eth*' }, 'spec.interfaceName: found "eth*"'],
    [{ node: 'n1', interfaceName: 'a'.repeat(16) }, 'at most 15'],
    [{ node: 'n1', expectedIPs: ['192.0.2.0/24'] }, 'spec.expectedIPs[0]'],
    [{ node: 'n1', interfaceName: '*', ports: [{ name: 'x', protocol: 'ICMP', port: 1 }] }, 'spec.ports[0].protocol'],
  ])('are refused with %j', (spec, text) => {
    expect(problemsOf('HostEndpoint', spec).join('\n')).toContain(text);
  });
});

describe('the installation', () => {
  it('accepts the examples of the specification [inst-resource]', () => {
    const spec = {
      cni: { type: 'netplug', ipam: { type: 'HostLocal' } },
      calicoNetwork: { ipPools: [{ cidr: '10.0.0.0/16' }, { cidr: 'fd00::/64' }] },
    };
    expect(problemsOf('Installation', spec)).toEqual([]);
    expect(problemsOf('Installation', {})).toEqual([]);
  });

  it('accepts "None" without BGP with "HostLocal", where another program connects the nodes', () => {
    const spec = {
      cni: { ipam: { type: 'HostLocal' } },
      calicoNetwork: { ipPools: [{ cidr: '10.0.0.0/16', encapsulation: 'None' }], bgp: 'Disabled' },
    };
    expect(problemsOf('Installation', spec)).toEqual([]);
  });

  it.each([
    {},
    { binDir: '/var/lib/cni/bin', confDir: '/etc/kubernetes/cni/net.d' },
    { binDir: '/usr/libexec/cni' },
    { binDir: '/usr/lib/cni' },
    { binDir: '/home/kubernetes/bin' },
    { binDir: '/var/snap/microk8s/current/opt/cni/bin', confDir: '/var/snap/microk8s/current/args/cni-network' },
  ])('may have the folders of a runtime: %j', (cni) => {
    expect(problemsOf('Installation', { cni })).toEqual([]);
  });

  it.each([
    ['binDir', '/usr/bin'],
    ['binDir', '/usr/bin/cni'],
    ['binDir', '/usr'],
    ['binDir', '/usr/lib'],
    ['binDir', '/var/lib/cni'],
    ['binDir', '/var/lib/netplug/bin'],
    ['confDir', '/etc'],
    ['confDir', '/run'],
    ['confDir', '/opt/cni/bin'],
  ])('is refused with %s %s, which the pod of the agent has itself', (name, path) => {
    expect(problemsOf('Installation', { cni: { [name]: path } })).toEqual([
      expect.stringMatching(`^spec\\.cni\\.${name}: found "${path}", which .*; allowed is `),
    ]);
  });

  it.each([
    [{ cni: { ipam: { type: 'hostlocal' } } }, 'did you mean "HostLocal"?'],
    [{ cni: { type: 'other' } }, 'spec.cni.type'],
    [{ calicoNetwork: { ipPools: [{}] } }, 'spec.calicoNetwork.ipPools[0].cidr: missing'],
    [{ calicoNetwork: { ipPools: [{ cidr: '10.0.0.1/16' }] } }, 'here "10.0.0.0/16"'],
    [{ netplugNetwork: {} }, 'spec.netplugNetwork: is not a known field'],
    [
      { calicoNetwork: { ipPools: [{ cidr: '10.0.0.0/8' }, { cidr: '10.1.0.0/16' }] } },
      'spec.calicoNetwork.ipPools[1].cidr: overlaps calicoNetwork.ipPools[0].cidr',
    ],
    [
      {
        cni: { ipam: { type: 'HostLocal' } },
        calicoNetwork: { ipPools: [{ cidr: '10.0.0.0/16' }, { cidr: '10.1.0.0/16' }] },
      },
      'has several IPv4 pools; with "HostLocal" allowed is one',
    ],
    [{ calicoNetwork: { floatingIPs: true } }, 'spec.calicoNetwork.floatingIPs: found true'],
    [{ calicoNetwork: { ipAddrsNoIpam: 'enabled' } }, 'did you mean "Enabled"?'],
    [
      { calicoNetwork: { policy: 'Disabled', floatingIPs: 'Enabled' } },
      'spec.calicoNetwork.floatingIPs: found "Enabled", which needs calicoNetwork.policy "Enabled"',
    ],
    [
      { calicoNetwork: { policy: 'Disabled', ipAddrsNoIpam: 'Enabled' } },
      'spec.calicoNetwork.ipAddrsNoIpam: found "Enabled", which needs calicoNetwork.policy "Enabled"',
    ],
  ])('is refused with %j [inst-resource]', (spec, text) => {
    expect(problemsOf('Installation', spec).join('\n')).toContain(text);
  });
});

describe('configurations', () => {
  it.each([
    ['AgentConfiguration', { warmPoolSize: 1025 }, 'spec.warmPoolSize: found 1025'],
    ['AgentConfiguration', { vxlanChecksums: 'Auto' }, 'did you mean "auto"?'],
    ['AgentConfiguration', { failsafeInboundHostPorts: [{ protocol: 'TCP' }] }, '[0].port: missing'],
    ['AgentConfiguration', { defaultEndpointToHostAction: 'Deny' }, '"Drop", "Return" or "Accept"'],
    ['AgentConfiguration', { policyLogPrefix: 'ü'.repeat(64) }, 'at most 64 printable ASCII characters'],
    ['AgentConfiguration', { policyLogPrefix: 'a\nb' }, 'at most 64 printable ASCII characters'],
    ['ControllersConfiguration', { controllers: { node: { hostEndpoint: { autoCreate: true } } } }, '"Enabled"'],
    ['ControllersConfiguration', { controllers: { nodes: {} } }, 'did you mean "node"?'],
    ['ControllersConfiguration', { controllers: { node: { leakGracePeriod: '15' } } }, 'a time such as'],
    ['ControllersConfiguration', { controllers: { policy: { reconcilerPeriod: '0s' } } }, 'a time such as'],
  ])('of kind %s are refused with %j', (kind, spec, text) => {
    expect(problemsOf(kind, spec).join('\n')).toContain(text);
  });

  it('may have an empty spec', () => {
    expect(problemsOf('AgentConfiguration', {})).toEqual([]);
    expect(problemsOf('ControllersConfiguration', {})).toEqual([]);
    expect(
      decodeResource({ apiVersion: API_VERSION, kind: 'ClusterInformation', metadata: { name: 'default' } }),
    ).toMatchObject({
      resource: { spec: { datastoreReady: true } },
    });
  });
});
