import { describe, expect, it } from 'vitest';
import type { HostLink, Kernel } from '../dataplane/kernel.ts';
import { hostLinkName, ownLinkName, podMacOf, podMark } from './link-name.ts';

const attachment = { network: 'net', containerId: 'c1', ifName: 'eth0' };
const pod = { namespace: 'shop', name: 'web-0', uid: 'u1' };

describe('the host side of a link', () => {
  it('has a name of 15 characters that depends on the key of the node', () => {
    expect(hostLinkName('key', pod, attachment)).toMatch(/^npl[0-9a-f]{12}$/);
    expect(hostLinkName('other', pod, attachment)).not.toBe(hostLinkName('key', pod, attachment));
    expect(hostLinkName('key', undefined, attachment)).toMatch(/^npl[0-9a-f]{12}$/);
    expect(hostLinkName(undefined, pod, attachment)).toBe('npl????????????');
  });

  it('has the same name in every sandbox of a pod, and another for each interface, UID and way to part a name', () => {
    const name = hostLinkName('key', pod, attachment);
    expect(hostLinkName('key', pod, { ...attachment, containerId: 'c2' })).toBe(name);
    const others = [
      hostLinkName('key', pod, { ...attachment, ifName: 'net1' }),
      hostLinkName('key', { ...pod, uid: 'u2' }, attachment),
      hostLinkName('key', { ...pod, namespace: 'shop.web', name: '0' }, attachment),
      hostLinkName('key', { ...pod, name: 'web-0.net1' }, attachment),
      hostLinkName('key', { ...pod, name: 'x-3p4ba', namespace: 'dev' }, attachment),
    ];
    expect(new Set([name, ...others]).size).toBe(6);
  });

  it('keeps the name that an earlier release or another key gave it, by its alias', async () => {
    const link = { name: 'npl19f223cf569', owner: { ...attachment, containerId: 'c1' } } as HostLink;
    const kernel = { listHostLinks: () => [link] } as unknown as Kernel;
    const ports = { kernel, linkKey: async () => Promise.resolve('key') };
    expect(await ownLinkName(ports, { pod, attachment })).toBe('npl19f223cf569');
    const next = { ...attachment, containerId: 'c2' };
    expect(await ownLinkName(ports, { pod, attachment: next })).toBe(hostLinkName('key', pod, next));
  });

  it('stands for its pod with the UID', () => {
    expect(podMark(pod)).toMatch(/^[0-9a-f]{32}$/);
    expect(podMark({ ...pod, uid: 'u2' })).not.toBe(podMark(pod));
    expect(podMark({ ...pod, uid: undefined })).not.toBe(podMark(pod));
  });

  it('has a peer with a stable, locally administered unicast MAC address', () => {
    expect(podMacOf(attachment)).toBe(podMacOf(attachment));
    expect(podMacOf(attachment)).toMatch(/^0a(:[0-9a-f]{2}){5}$/);
  });
});
