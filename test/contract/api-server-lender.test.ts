// The API servers that files of tests borrow: each loan begins with the same contents, whatever the one before has left.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import lender from '../support/api-server-lender.ts';
import { LENDER } from '../support/borrowed-api-server.ts';
import { startApiServer } from '../support/kube.ts';
import type { Json } from '../support/node.ts';
import { until } from '../support/until.ts';

const CRD = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'things.example.org' },
  spec: {
    group: 'example.org',
    scope: 'Cluster',
    names: { plural: 'things', singular: 'thing', kind: 'Thing', listKind: 'ThingList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};
const metadata = { name: 'no-secrets' };
const POLICY = {
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingAdmissionPolicy',
  metadata,
  spec: {
    matchConstraints: {
      resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['secrets'] }],
    },
    validations: [{ expression: 'false' }],
  },
};
const BINDING = {
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingAdmissionPolicyBinding',
  metadata,
  spec: { policyName: metadata.name, validationActions: ['Deny'] },
};
const ROLE = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  metadata: { name: 'everything' },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
  subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'limited' }],
};
const SECRET = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a', namespace: 'default' } };

const SECRETS = '/api/v1/namespaces/default/secrets';

describe('a lender of API servers', () => {
  const ofTheRun = process.env[LENDER];
  let end: () => Promise<void>;
  beforeAll(async () => {
    delete process.env[LENDER];
    end = await lender();
  });
  afterAll(async () => {
    await end?.();
    process.env[LENDER] = ofTheRun;
  });

  it('removes what a loan leaves: kinds, policies of admission, rights, objects, changes and files', async () => {
    const first = await startApiServer({ users: [{ name: 'limited' }] });
    const before = await first.get('namespace', 'default');
    const own = await first.kubeconfigFor(first.adminToken);
    await first.apply([CRD, { apiVersion: 'example.org/v1', kind: 'Thing', metadata: { name: 'a' } }, ROLE]);
    await first.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default', labels: { a: 'b' } } }]);
    // A namespace whose deletion no controller finishes.
    await first.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }]);
    await first.call('DELETE', '/api/v1/namespaces/shop');
    await first.call('DELETE', '/apis/rbac.authorization.k8s.io/v1/clusterroles/view');
    await first.apply([POLICY, BINDING]);
    const tried = async (): Promise<unknown> => first.ask('POST', `${SECRETS}?dryRun=All`, { body: SECRET });
    await until(async () => JSON.stringify(await tried()).includes('denied'), 'the policy is in force');
    const asLimited = { token: first.userToken('limited') };
    await until(async () => (await first.ask('GET', '/api/v1/nodes', asLimited)).status === 200, 'the role is known');
    await first[Symbol.asyncDispose]();

    await using second = await startApiServer();
    expect(second.url).toBe(first.url);
    await second.call('POST', SECRETS, { body: SECRET });
    expect((await second.get('namespaces')).items.map((each: Json) => each.metadata.name)).not.toContain('shop');
    const { metadata: now } = await second.get('namespace', 'default');
    expect(now).toMatchObject({ uid: before.metadata.uid, labels: before.metadata.labels });
    await expect(second.get('things')).rejects.toThrow('resource type "things"');
    await second.get('clusterrole', 'view');
    await expect.poll(async () => (await second.ask('GET', '/api/v1/nodes', asLimited)).status).toBe(403);
    await expect(second.kubectl(`--kubeconfig=${own}`, 'get', 'nodes')).rejects.toThrow('no such file');
    await second.apply([CRD, { apiVersion: 'example.org/v1', kind: 'Thing', metadata: { name: 'b' } }]);
    expect((await second.get('things')).items.map((each: Json) => each.metadata.name)).toEqual(['b']);
  });

  it('lends a server that runs, after a loan that stopped it', async () => {
    const first = await startApiServer();
    await first.stop();
    await first[Symbol.asyncDispose]();
    await using second = await startApiServer();
    expect((await second.ask('GET', '/readyz')).status).toBe(200);
  });

  it('ends a server that was written to after its return, and lends another', async () => {
    const first = await startApiServer();
    await first[Symbol.asyncDispose]();
    // Until it has been emptied, what is written goes as well.
    await until(async () => {
      await first.ask('POST', '/api/v1/namespaces', { body: { metadata: { name: 'late' } } });
      await sleep(1000);
      return (await first.ask('GET', '/api/v1/namespaces/late')).status === 200;
    }, 'what is written stays');
    await using second = await startApiServer();
    expect(second.url).not.toBe(first.url);
  });
});
