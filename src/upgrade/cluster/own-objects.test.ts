import { describe, expect, it } from 'vitest';
import { soundCluster } from '../../../test/support/sound-cluster.ts';
import type { Manifest } from '../../model/manifest.ts';
import { isChartRecord, isOwnObject } from './own-objects.ts';

const RBAC = 'rbac.authorization.k8s.io/v1';
const object = (kind: string, name: string, more: Manifest = {}, namespace?: string): Manifest => ({
  apiVersion: 'v1',
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  ...more,
});
const binding = (name: string, role: string, subject: Manifest): Manifest =>
  object('ClusterRoleBinding', name, {
    apiVersion: RBAC,
    roleRef: { kind: 'ClusterRole', name: role },
    subjects: [subject],
  });
const AGENT = { kind: 'ServiceAccount', name: 'netplug-agent', namespace: 'netplug-system' };

describe('the objects of netplug', () => {
  it('are all that an installation consists of, in each variant of the datastore', () => {
    const kinds = ['CustomResourceDefinition', 'IPPool'];
    for (const { objects } of [
      soundCluster(),
      soundCluster({ circumstances: { datastore: { type: 'kvv3', endpoints: 'https://a:2379', tls: 'secret' } } }),
    ])
      expect(objects.filter((each) => !kinds.includes(String(each['kind'])) && !isOwnObject(each))).toEqual([]);
    expect(isOwnObject(object('Installation', 'default'))).toBe(true);
  });

  it.each([
    ['a binding of another name', binding('evil-from-backup', 'cluster-admin', { kind: 'User', name: 'mallory' })],
    ['a binding of a role that is not netplug’s', binding('netplug-agent', 'cluster-admin', AGENT)],
    ['a binding of a user', binding('netplug-agent', 'netplug-agent', { kind: 'User', name: 'mallory' })],
    [
      'a binding of an account in the namespace of a tenant',
      binding('netplug-agent', 'netplug-agent', { ...AGENT, name: 'netplug-x', namespace: 'dev' }),
    ],
    [
      'a binding of an account in no namespace',
      binding('netplug-agent', 'netplug-agent', { ...AGENT, namespace: undefined }),
    ],
    ['a role of another name', object('ClusterRole', 'evil')],
    ['a workload in another namespace', object('DaemonSet', 'netplug-node', {}, 'kube-system')],
    ['another namespace', object('Namespace', 'netplug-other')],
    ['a pod', object('Pod', 'netplug-node', {}, 'netplug-system')],
    ['a webhook', object('ValidatingWebhookConfiguration', 'netplug-hook')],
    ['a custom resource', object('IPPool', 'netplug-pool')],
  ])('are not %s', (_, foreign) => {
    expect(isOwnObject(foreign)).toBe(false);
  });

  it('have records of helm, which are Secrets of their own type', () => {
    const type = 'helm.sh/release.v1';
    expect(isChartRecord(object('Secret', 'sh.helm.release.v1.netplug.v3', { type }, 'apps'))).toBe(true);
    expect(isChartRecord(object('Secret', 'sh.helm.release.v1.netplug.v3', { type: 'Opaque' }, 'apps'))).toBe(false);
    expect(isChartRecord(object('Secret', 'token', { type }, 'apps'))).toBe(false);
    expect(isChartRecord(object('ConfigMap', 'sh.helm.release.v1.netplug.v3', { type }, 'apps'))).toBe(false);
  });
});
