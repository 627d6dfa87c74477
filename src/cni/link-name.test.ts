import { describe, expect, it } from 'vitest';
import { hostLinkName, podMacOf } from './link-name.ts';

const attachment = { network: 'net', containerId: 'c1', ifName: 'eth0' };

describe('the host side of a link', () => {
  it('is named after pod or container in 14 characters', () => {
    expect(hostLinkName({ namespace: 'shop', name: 'web-0' }, attachment)).toBe('npla4fc3c48bd8');
    expect(hostLinkName(undefined, attachment)).toMatch(/^npl[0-9a-f]{11}$/);
  });

  it('keeps its name over sandboxes of one pod, and differs between interfaces', () => {
    const pod = { namespace: 'shop', name: 'web-0' };
    expect(hostLinkName(pod, { ...attachment, containerId: 'c2' })).toBe(hostLinkName(pod, attachment));
    expect(hostLinkName(pod, { ...attachment, ifName: 'net1' })).not.toBe(hostLinkName(pod, attachment));
  });

  it('has a pod side with a stable, local, unicast address', () => {
    expect(podMacOf(attachment)).toBe(podMacOf(attachment));
    expect(podMacOf(attachment)).toMatch(/^0a(:[0-9a-f]{2}){5}$/);
  });
});
