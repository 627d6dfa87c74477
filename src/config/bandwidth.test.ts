import { describe, expect, it } from 'vitest';
import { decodeBandwidth } from './bandwidth.ts';

const pod = (annotations: Record<string, string>): Parameters<typeof decodeBandwidth>[0] => ({
  namespace: 'shop',
  name: 'web',
  uid: 'u',
  labels: {},
  annotations,
  namespaceAnnotations: {},
  serviceAccount: undefined,
  ports: [],
});

describe('bandwidth annotations', () => {
  it('are rates in bits per second with a unit [ann-bandwidth]', () => {
    expect(decodeBandwidth(pod({ 'orch/ingress-bandwidth': '10M', 'orch/egress-bandwidth': '1.5G' }))).toEqual({
      ingressRate: 10_000_000,
      egressRate: 1_500_000_000,
    });
    expect(decodeBandwidth(pod({ 'orch/egress-bandwidth': '1Mi' }))).toEqual({ egressRate: 1_048_576 });
    expect(decodeBandwidth(pod({}))).toBeUndefined();
  });

  it('are ignored beside kubernetes.io annotations, which the runtime applies', () => {
    const both = { 'orch/ingress-bandwidth': '10M', 'kubernetes.io/ingress-bandwidth': '20M' };
    expect(decodeBandwidth(pod(both))).toBeUndefined();
  });

  it.each(['fast', '10Q', '-1M', '10', '2P', ''])('refuse %j, naming pod, key and rule', (text) => {
    expect(() => decodeBandwidth(pod({ 'orch/egress-bandwidth': text }))).toThrow(
      `pod "shop/web": orch/egress-bandwidth is ${JSON.stringify(text)}: it must be a number with a unit`,
    );
  });
});
