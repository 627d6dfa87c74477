import { describe, expect, it } from 'vitest';
import { placeAt } from '../documents.ts';
import { lintSource } from './lint-source.ts';

const lines = (text: string): string[] =>
  lintSource({ name: 'x.yaml', text }).map(
    ({ severity, problem, file, region }) => `${placeAt(file, region)} ${severity} ${problem.path}: ${problem.message}`,
  );

describe('lint of a Kubernetes network policy', () => {
  const head = 'apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\nspec:\n';

  it('accepts a policy that every part of has an effect', () => {
    expect(
      lines(`${head}  podSelector: {}\n  ingress: [{from: [{podSelector: {}}], ports: [{port: http}]}]\n`),
    ).toEqual([]);
  });

  it('reports a rule that cannot be used as an error, and others as warnings at their rule', () => {
    const rules = '  ingress:\n  - ports: [{port: 80, endPort: 79}]\n  - {}\n  - from: [{podSelector: {}}]\n';
    expect(lines(`${head}  podSelector: {}\n${rules}`)).toEqual([
      expect.stringMatching(/^x\.yaml:4:1 error spec: .*shop\/web: ingress\[0\] allows nothing.*endPort/),
      'x.yaml:9:5 warning spec.ingress[2]: spec.ingress[2] has no effect: ingress[1] already matches every packet',
    ]);
  });
});

describe('lint of a network policy of netplug', () => {
  it('warns of a system namespace that is cut off, and of egress without DNS', () => {
    const text = `apiVersion: netplug.io/v3
kind: GlobalNetworkPolicy
metadata: {name: web}
spec:
  egress: [{action: Allow, protocol: TCP, destination: {ports: [443]}}]
`;
    expect(lines(text)).toEqual([
      expect.stringContaining(
        'x.yaml:5:3 warning spec.egress: spec.egress applies to every pod of kube-system and netplug-system',
      ),
      expect.stringContaining('x.yaml:5:3 warning spec.egress: spec.egress allows connections'),
    ]);
  });
});
