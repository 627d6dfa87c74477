import { describe, expect, it } from 'vitest';
import type { ApiObject } from '../../../kube/objects.ts';
import { askedWebhooks } from './asked-webhooks.ts';

/** Returns a configuration with a webhook on the creation of pods, changed. */
function configuration(change: object): readonly ApiObject[] {
  const hook = {
    name: 'pods.example',
    failurePolicy: 'Fail',
    clientConfig: { service: { namespace: 'policy', name: 'server' } },
    rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
  };
  return [{ metadata: { name: 'policy', resourceVersion: '1' }, webhooks: [{ ...hook, ...change }] }];
}

const names = (change: object, labels?: Readonly<Record<string, string>>): readonly string[] =>
  askedWebhooks(configuration(change), labels).map(({ name }) => name);
const expression = (key: string, operator: string, values?: readonly string[]): object => ({
  matchExpressions: [{ key, operator, ...(values === undefined ? {} : { values }) }],
});
const NAME = 'kubernetes.io/metadata.name';

describe('a webhook', () => {
  it.each<[string, object]>([
    ['without selectors', {}],
    ['that leaves out kube-system alone', { namespaceSelector: expression(NAME, 'NotIn', ['kube-system']) }],
    ['that leaves out a namespace by a label', { namespaceSelector: expression('policy', 'DoesNotExist') }],
    ['on everything', { rules: [{ operations: ['*'], resources: ['*/*'] }] }],
    ['on objects of netplug', { objectSelector: { matchLabels: { 'app.kubernetes.io/part-of': 'netplug' } } }],
  ])('%s is asked about pods of netplug', (_, change) => {
    expect(names(change)).toEqual(['policy/pods.example']);
  });

  it.each<[string, object]>([
    [
      'that leaves out netplug-system',
      { namespaceSelector: expression(NAME, 'NotIn', ['kube-system', 'netplug-system']) },
    ],
    ['on namespaces with a label', { namespaceSelector: { matchLabels: { policy: 'on' } } }],
    ['on other objects', { objectSelector: expression('app', 'Exists') }],
    ['on deletions', { rules: [{ operations: ['DELETE'], resources: ['pods'] }] }],
    ['on other kinds', { rules: [{ operations: ['CREATE'], resources: ['ingresses'] }] }],
  ])('%s is not asked about pods of netplug', (_, change) => {
    expect(names(change)).toEqual([]);
  });

  it('is judged by the labels of the namespace netplug-system', () => {
    const change = { namespaceSelector: { matchLabels: { policy: 'on' } } };
    expect(names(change, { policy: 'on' })).toEqual(['policy/pods.example']);
  });

  it('has the failure policy and the Service that it names, and fails by default', () => {
    const service = { namespace: 'policy', name: 'server' };
    expect(askedWebhooks(configuration({ failurePolicy: undefined }))).toMatchObject([
      { failurePolicy: 'Fail', service, matches: ['pods'] },
    ]);
    expect(askedWebhooks(configuration({ failurePolicy: 'Ignore', clientConfig: { url: 'https://a' } }))).toMatchObject(
      [{ failurePolicy: 'Ignore', service: undefined }],
    );
  });
});
