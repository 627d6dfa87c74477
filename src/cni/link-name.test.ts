import { describe, expect, it } from 'vitest';
import { hostLinkName, podMacOf } from './link-name.ts';

const attachment = { network: 'net', containerId: 'c1', ifName: 'eth0' };

describe('the host side of a link', () => {
  it('has a name of 14 characters that depends on the pod, or on the container without a pod', () => {
    expect(hostLinkName({ namespace: 'shop', name: 'web-0' }, attachment)).toBe('npla4fc3c48bd8');
    expect(hostLinkName(undefined, attachment)).toMatch(/^npl[0-9a-f]{11}$/);
  });

  it('has the same name in every sandbox of a pod, and another for each interface', () => {
    const pod = { namespace: 'shop', name: 'web-0' };
    expect(hostLinkName(pod, { ...attachment, containerId: 'c2' })).toBe(hostLinkName(pod, attachment));
    expect(hostLinkName(pod, { ...attachment, ifName: 'net1' })).not.toBe(hostLinkName(pod, attachment));
  });

  it('has a peer with a stable, locally administered unicast MAC address', () => {
    expect(podMacOf(attachment)).toBe(podMacOf(attachment));
    expect(podMacOf(attachment)).toMatch(/^0a(:[0-9a-f]{2}){5}$/);
  });
});
