// The API server that contract tests of the datastore build on.
import { expect, it } from 'vitest';
import { startApiServer } from '../support/kube.ts';

it('an API server alone refuses what no role allows, and keeps its objects through a restart', async () => {
  await using server = await startApiServer();
  const token = await server.tokenFor('kube-system/netplug');
  const asAccount = await server.kubeconfigFor(token);
  const read = async (): Promise<string> => server.kubectl(`--kubeconfig=${asAccount}`, 'get', 'namespaces', '-o=name');
  await expect(read()).rejects.toThrow(
    'User "system:serviceaccount:kube-system:netplug" cannot list resource "namespaces"',
  );
  await server.kubectl('create', 'clusterrole', 'reader', '--verb=list', '--resource=namespaces');
  await server.kubectl(
    'create',
    'clusterrolebinding',
    'reader',
    '--clusterrole=reader',
    '--serviceaccount=kube-system:netplug',
  );
  await server.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }]);
  expect(await read()).toContain('namespace/shop\n');

  await server.restart();
  expect(await read()).toContain('namespace/shop\n');
});
