// What the CNI library of the runtimes records of an interface.

export const CHAIN = {
  cniVersion: '1.0.0',
  name: 'k8s-pod-network',
  plugins: [
    { type: 'netplug', ipam: { type: 'netplug-ipam' } },
    { type: 'portmap', snat: true, capabilities: { portMappings: true } },
    { type: 'bandwidth', capabilities: { bandwidth: true, other: false } },
    { type: '../../tmp/evil' },
  ],
};

/** Returns the text of the file for interface eth0 of container c1, with the list and the changed fields. */
export function recordText(change: object = {}, conflist: object = CHAIN): string {
  return JSON.stringify({
    kind: 'cniCacheV1',
    containerId: 'c1',
    ifName: 'eth0',
    networkName: 'k8s-pod-network',
    netns: '/run/netns/cni-1',
    config: Buffer.from(JSON.stringify(conflist)).toString('base64'),
    cniArgs: [
      ['K8S_POD_NAMESPACE', 'shop'],
      ['K8S_POD_NAME', 'web'],
    ],
    capabilityArgs: {
      portMappings: [{ HostPort: 8081, ContainerPort: 80, Protocol: 'tcp', HostIP: '' }],
      bandwidth: { ingressRate: 1 },
      other: 1,
      constructor: 2,
    },
    result: { ips: [{ address: '10.0.0.1/32' }, { address: 'fd00::1/128' }] },
    ...change,
  });
}
