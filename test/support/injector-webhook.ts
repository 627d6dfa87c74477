// The webhook by which an API server asks a control plane of a mesh about new pods.

export const INJECTORS_PATH = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations';

/** Points to the control plane, which nothing runs: it selects no pod, and fails open. */
export function injectorWebhook(name = 'istiod', namespace = 'istio-system'): object {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: `${namespace}-${name}` },
    webhooks: [
      {
        name: 'rev.namespace.sidecar-injector.istio.io',
        clientConfig: { service: { name, namespace, path: '/inject' } },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
        objectSelector: { matchLabels: { 'netplug.test/injected': 'never' } },
        failurePolicy: 'Ignore',
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
      },
    ],
  };
}
