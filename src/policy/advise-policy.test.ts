import { describe, expect, it } from 'vitest';
import { fromKubernetesPolicy } from '../model/from-kubernetes/network-policy.ts';
import { decodeResource } from '../model/decode-resource.ts';
import { advisePolicy } from './advise-policy.ts';
import { resolveNetworkPolicy } from './resolve-policy.ts';

function adviceOn(spec: object): string[] {
  const read = decodeResource({ apiVersion: 'netplug.io/v3', kind: 'NetworkPolicy', metadata: { name: 'a' }, spec });
  if (!('resource' in read) || read.resource.kind !== 'NetworkPolicy') throw new Error(JSON.stringify(read));
  return advisePolicy(resolveNetworkPolicy(read.resource).policy).map(({ path, message }) => `${path}: ${message}`);
}

function adviceOnKubernetes(spec: object): string[] {
  const { value } = fromKubernetesPolicy({ metadata: { name: 'a', namespace: 'x' }, spec });
  if (value === undefined) throw new Error('it cannot be used');
  return advisePolicy(resolveNetworkPolicy(value).policy).map(({ path }) => path);
}

describe('advice on a policy', () => {
  it.each([
    ['that allows a service', { ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [80] } }] }],
    ['that logs everything first', { ingress: [{ action: 'Log' }, { action: 'Allow', protocol: 'TCP' }] }],
    ['that passes on', { egress: [{ action: 'Deny', protocol: 'TCP' }, { action: 'Pass' }] }],
    ['that denies all egress', { types: ['Egress'] }],
    [
      'that allows DNS',
      {
        egress: [
          { action: 'Allow', protocol: 'UDP', destination: { ports: [53] } },
          { action: 'Allow', protocol: 'TCP' },
        ],
      },
    ],
  ])('has nothing to say of one %s', (_, spec) => {
    expect(adviceOn(spec)).toEqual([]);
  });

  it('names rules behind one that matches everything', () => {
    const ingress = [{ action: 'Deny' }, { action: 'Allow', protocol: 'TCP' }, { action: 'Log' }];
    expect(adviceOn({ ingress })).toEqual([
      'ingress[1]: has no effect: ingress[0] already matches every packet',
      'ingress[2]: has no effect: ingress[0] already matches every packet',
    ]);
  });

  it.each([
    ['networks', { nets: ['10.0.0.0/24'], notNets: ['10.0.0.0/8'] }],
    ['ports', { ports: [80, '90:99'], notPorts: ['80:100'] }],
    ['selectors', { selector: "app == 'a' && app == 'b'" }],
    ['selectors', { selector: 'has(app) && !has(app)' }],
    ['selectors', { selector: "app in { 'a' } && app == 'b'" }],
  ])('names %s that exclude themselves', (_, source) => {
    const said = adviceOn({ ingress: [{ action: 'Allow', protocol: 'TCP', source }] });
    expect(said).toEqual([expect.stringContaining('ingress[0]: source: never matches')]);
  });

  it.each([
    [
      'every pod of kube-system',
      'kube-system',
      { selector: 'all()', ingress: [{ action: 'Allow', protocol: 'TCP' }] },
      1,
    ],
    ['every pod of kube-system with Deny', 'kube-system', { selector: '!has(app)', ingress: [{ action: 'Deny' }] }, 1],
    ['pods of kube-system by their labels', 'kube-system', { selector: "app == 'a'", types: ['Ingress'] }, 0],
    ['every pod of another namespace', 'shop', { selector: 'all()', types: ['Ingress'] }, 0],
    ['every pod of kube-system, and allows the rest', 'kube-system', { ingress: [{ action: 'Allow' }] }, 0],
  ])('names a policy that cuts off %s', (_, namespace, spec, count) => {
    const metadata = { name: 'a', namespace };
    const read = decodeResource({ apiVersion: 'netplug.io/v3', kind: 'NetworkPolicy', metadata, spec });
    if (!('resource' in read) || read.resource.kind !== 'NetworkPolicy') throw new Error(JSON.stringify(read));
    const said = advisePolicy(resolveNetworkPolicy(read.resource).policy).map(({ message }) => message);
    expect(said.filter((text) => text.startsWith('applies to every pod of kube-system'))).toHaveLength(count);
  });

  it('names egress without DNS', () => {
    const said = adviceOn({ egress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [443] } }] });
    expect(said).toEqual([expect.stringContaining('egress: allows connections, but no DNS')]);
  });

  it('counts rules of a Kubernetes policy as they were written', () => {
    const to = [{ ipBlock: { cidr: '192.0.2.0/24' } }];
    const egress = [{ ports: [{ protocol: 'UDP', port: 53 }] }, { to, ports: [{ port: 80 }, { port: 'web' }] }];
    expect(adviceOnKubernetes({ podSelector: {}, egress })).toEqual(['egress[1]']);
    const ingress = [{}, { from: [{ podSelector: {} }, { namespaceSelector: {} }] }];
    expect(adviceOnKubernetes({ podSelector: {}, ingress })).toEqual(['ingress[1]']);
  });
});
