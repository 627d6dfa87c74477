// An API server as far as it answers reads: objects by the path of their request, everything else as it is refused or missing.
import { Readable } from 'node:stream';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { Transport } from '../../src/kube/transport.ts';

/** By path, without query. A number is the HTTP status of a refusal; `unserved` is a kind that the server does not know. */
export type CannedAnswers = Readonly<Record<string, object | number | 'unserved'>>;

const EMPTY_LIST = { metadata: { resourceVersion: '1' }, items: [] };
/** An API server that evaluates admission policies, without workloads and namespaces. */
export const WITHOUT_WORKLOADS: CannedAnswers = {
  '/api': { items: [] },
  '/apis': {
    items: [
      {
        metadata: { name: 'admissionregistration.k8s.io' },
        versions: [
          {
            resources: [{ resource: 'validatingadmissionpolicies' }, { resource: 'validatingadmissionpolicybindings' }],
          },
        ],
      },
    ],
  },
  '/api/v1/pods': EMPTY_LIST,
  '/api/v1/namespaces': EMPTY_LIST,
  ...Object.fromEntries(
    ['deployments', 'statefulsets', 'daemonsets', 'replicasets'].map((plural) => [
      `/apis/apps/v1/${plural}`,
      EMPTY_LIST,
    ]),
  ),
  ...Object.fromEntries(['jobs', 'cronjobs'].map((plural) => [`/apis/batch/v1/${plural}`, EMPTY_LIST])),
};

/** Returns a client of an API server that gives these answers, and grants no right but those of `granted`. */
export function cannedApi(
  answers: CannedAnswers,
  granted: (attributes: object, spec: { readonly user?: string }) => boolean = () => true,
): OrchApi {
  const open: Transport['open'] = async (_, { method, path, body }) => {
    const [place = '', query = ''] = path.split('?');
    const isReview = method === 'POST' && place.endsWith('subjectaccessreviews');
    // It remembers no version to watch from, so that watches list again after a moment.
    const { [place]: found = 404 } = query.includes('watch=1') ? { [place]: 410 } : answers;
    const status = isReview ? 201 : typeof found === 'number' ? found : found === 'unserved' ? 404 : 200;
    const { spec = {} } = JSON.parse(body ?? '{}');
    const value = isReview
      ? { status: { allowed: granted(spec.resourceAttributes, spec) } }
      : typeof found === 'number'
        ? { kind: 'Status', reason: found === 404 ? 'NotFound' : 'Forbidden', message: `${place} is refused` }
        : found;
    const text = found === 'unserved' ? '404 page not found' : JSON.stringify(value);
    const bytes = Readable.from([Buffer.from(text)]);
    return Promise.resolve({ status, headers: {}, body: bytes });
  };
  const transport = { open, close: (): void => undefined };
  return new OrchApi({ from: 'api-root', url: 'http://127.0.0.1:1' }, { transport });
}
