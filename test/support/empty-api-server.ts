// Empties an API server by way of its etcd, and waits until the server knows.
import type { ApiRequests } from './api-requests.ts';
import type { EtcdContents } from './etcd-contents.ts';
import { listServedKinds, type ServedKind } from './served-kinds.ts';
import { until } from './until.ts';

const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const SENTINEL = 'netplug-test-sentinel';
const DEADLINE_MS = 60_000;
const POLL_MS = 50;
/** Nobody waits for it: the next loan takes another server that is free. */
const STILL_MS = 500;

/** Refuses ConfigMaps of its own name, and nothing else. */
const REFUSAL = {
  policy: {
    metadata: { name: SENTINEL },
    spec: {
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: [''],
            apiVersions: ['v1'],
            operations: ['CREATE'],
            resources: ['configmaps'],
            resourceNames: [SENTINEL],
          },
        ],
      },
      validations: [{ expression: 'false', message: SENTINEL }],
    },
  },
  binding: { metadata: { name: SENTINEL }, spec: { policyName: SENTINEL, validationActions: ['Deny'] } },
};

/** Puts everything back as recorded; `served` are the kinds that the server then serves. */
export async function emptyApiServer(
  requests: ApiRequests,
  contents: EtcdContents,
  served: readonly ServedKind[],
): Promise<void> {
  const touched = new Set(await contents.restore());
  if (touched.size === 0) return;
  await untilServed(requests, served);
  if ([...touched].some((key) => /^\/registry\/[^/]*(admissionpolic|webhookconfiguration)/.test(key)))
    await untilPoliciesAreRead(requests);
  // Its controllers may have written what they still knew.
  let lastWrite = Date.now();
  await until(
    async () => {
      const more = await contents.restore();
      for (const key of more) touched.add(key);
      if (more.length > 0) lastWrite = Date.now();
      return Date.now() - lastWrite >= STILL_MS;
    },
    'nothing writes to the emptied API server',
    DEADLINE_MS,
    POLL_MS,
  );
  await untilCachesAreNew(requests, served, touched);
}

async function untilServed(requests: ApiRequests, served: readonly ServedKind[]): Promise<void> {
  const namesOf = (kinds: readonly ServedKind[]): string =>
    kinds
      .map(({ root, resource }) => `${root}/${resource}`)
      .sort()
      .join();
  const wanted = namesOf(served);
  await until(
    async () => namesOf(await listServedKinds(requests)) === wanted,
    'the API server serves the kinds that it served before',
    DEADLINE_MS,
    POLL_MS,
  );
}

/** The API server reads policies of admission once a second: when it knows the newest, it knows that the others are gone. */
async function untilPoliciesAreRead({ ask, call }: ApiRequests): Promise<void> {
  const mayCreate = async (): Promise<boolean> => {
    const body = { metadata: { name: SENTINEL } };
    const { body: answer } = await ask('POST', '/api/v1/namespaces/default/configmaps?dryRun=All', { body });
    return !JSON.stringify(answer).includes(`: ${SENTINEL}`);
  };
  const kinds = { policy: 'validatingadmissionpolicies', binding: 'validatingadmissionpolicybindings' } as const;
  for (const each of ['policy', 'binding'] as const)
    await call('POST', `${ADMISSION}/${kinds[each]}`, { body: REFUSAL[each] });
  await until(async () => !(await mayCreate()), 'a policy of admission is in force', DEADLINE_MS, POLL_MS);
  for (const each of ['binding', 'policy'] as const) await call('DELETE', `${ADMISSION}/${kinds[each]}/${SENTINEL}`);
  await until(mayCreate, 'a policy of admission is no longer in force', DEADLINE_MS, POLL_MS);
}

/** A list without a version is as new as etcd: the cache that answers it has then heard of everything before. */
async function untilCachesAreNew(
  { call }: ApiRequests,
  served: readonly ServedKind[],
  touched: ReadonlySet<string>,
): Promise<void> {
  const parts = new Set([...touched].flatMap((key) => key.split('/').slice(2, 4)));
  for (const { root, resource, isListed } of served)
    if (isListed && (parts.has(resource) || (resource === 'nodes' && parts.has('minions'))))
      await call('GET', `${root}/${resource}?limit=1`);
}
