import { expect, it } from 'vitest';
import { PolicyCluster } from '../../test/support/policy-cluster.ts';
import { fromServiceAccount } from '../model/from-kubernetes/profiles.ts';
import { trimmedObject } from '../kube/trimmed-object.ts';
import { SERVICE_ACCOUNTS } from '../kube/paths.ts';

function labels(count: number): Readonly<Record<string, string>> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`l${String(index)}`, 'x']));
}

const POD = { namespace: 'dev', name: 'web', addresses: ['10.0.0.1'], interfaceName: 'npl1' };
const KEY = 'pod dev/node--1-orch-web-eth0';

it('closes a pod with more labels than policies know, and names it, until it has fewer', () => {
  const cluster = new PolicyCluster();
  cluster.putPod({ ...POD, labels: labels(255) });
  expect([cluster.state.endpoints.has(KEY), cluster.state.problems.size]).toEqual([true, 0]);
  cluster.putPod({ ...POD, labels: labels(256) });
  expect(cluster.state.endpoints.has(KEY)).toBe(false);
  expect(cluster.state.problems.get(KEY)).toEqual([`Pod dev/web has no network: it has more than 256 labels`]);
  cluster.putPod(POD);
  expect([cluster.state.endpoints.has(KEY), cluster.state.problems.size]).toEqual([true, 0]);
});

it('closes the pods of an account with more labels, as an agent keeps it, until it has fewer', () => {
  const cluster = new PolicyCluster();
  const putAccount = (count: number): void => {
    const metadata = { namespace: 'dev', name: 'default', labels: labels(count) };
    cluster.put(fromServiceAccount(trimmedObject(SERVICE_ACCOUNTS, { metadata })));
  };
  putAccount(256);
  cluster.putPod({ ...POD, account: 'default' });
  expect(cluster.state.endpoints.has(KEY)).toBe(true);
  putAccount(9000);
  expect(cluster.state.endpoints.has(KEY)).toBe(false);
  expect(cluster.state.problems.get(KEY)).toEqual([
    `Pod dev/web has no network: profile ksa.dev.default has more than 256 labels`,
  ]);
  putAccount(1);
  expect([cluster.state.endpoints.has(KEY), cluster.state.problems.size]).toEqual([true, 0]);
});
