import { describe, expect, it } from 'vitest';
import { formatAddress } from '../net/address.ts';
import { decodeCniArgs } from './cni-args.ts';

describe('CNI_ARGS', () => {
  it('contain the pod and requested addresses', () => {
    const text =
      'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=u;K8S_POD_INFRA_CONTAINER_ID=c;IP=10.0.0.1,fd00::1;MAC=0A:00:00:00:00:01';
    const args = decodeCniArgs(text);
    expect(args).toMatchObject({ podName: 'web-0', podNamespace: 'shop', podUid: 'u' });
    expect(args.mac).toBe('0a:00:00:00:00:01');
    expect(args.ips.map(formatAddress)).toEqual(['10.0.0.1', 'fd00::1']);
  });

  it.each([undefined, '', ';', 'ip=10.0.0.1;Other=x', 'IP='])('contain nothing in %j', (text) => {
    expect(decodeCniArgs(text)).toMatchObject({ ips: [], mac: undefined, podName: undefined });
  });

  it.each([
    ['IP', 'cni/env-invalid', '"IP" is not a pair'],
    ['A=b=c', 'cni/env-invalid', '"A=b=c" is not a pair'],
    ['=b', 'cni/env-invalid', '"=b" is not a pair'],
    ['MAC=01:00:00:00:00:00', 'cni/env-invalid', 'not a unicast hardware address'],
    ['IP=10.0.0.256', 'ipam/request-invalid', '"10.0.0.256" is not an IP address'],
    ['IP=10.0.0.1,10.0.0.2', 'ipam/request-invalid', '"10.0.0.2" is a second IPv4 address'],
  ])('are refused when they are %j', (text, code, message) => {
    expect(() => decodeCniArgs(text)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });
});
