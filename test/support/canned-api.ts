// An API server as far as it answers reads: objects by the path of their request, everything else as it is refused or missing.
import { Readable } from 'node:stream';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { Transport } from '../../src/kube/transport.ts';

/** By path, without query. A number is the HTTP status of a refusal. */
export type CannedAnswers = Readonly<Record<string, object | number>>;

/** Returns a client of an API server that gives these answers, and grants no right but those of `granted`. */
export function cannedApi(answers: CannedAnswers, granted: (attributes: object) => boolean = () => true): OrchApi {
  const open: Transport['open'] = async (_, { method, path, body }) => {
    const [place = ''] = path.split('?');
    const isReview = method === 'POST' && place.endsWith('/selfsubjectaccessreviews');
    const { [place]: found = 404 } = answers;
    const status = isReview ? 201 : typeof found === 'number' ? found : 200;
    const value = isReview
      ? { status: { allowed: granted(JSON.parse(body ?? '{}').spec.resourceAttributes) } }
      : typeof found === 'number'
        ? { kind: 'Status', reason: found === 404 ? 'NotFound' : 'Forbidden', message: `${place} is refused` }
        : found;
    const bytes = Readable.from([Buffer.from(JSON.stringify(value))]);
    return Promise.resolve({ status, headers: {}, body: bytes });
  };
  const transport = { open, close: (): void => undefined };
  return new OrchApi({ from: 'api-root', url: 'http://127.0.0.1:1' }, { transport });
}
