import { isNetplugError } from '../../../base/errors.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { ENDPOINT_SLICES, SERVICES } from '../../../kube/paths.ts';
import type { Converted } from '../../../model/from-kubernetes/kubernetes-object.ts';
import { endpointsOfSlice, fromService } from '../../../model/from-kubernetes/service.ts';
import type { EndpointOfService, Service } from '../../../model/service.ts';
import { readApiAccess, readConnection } from '../connection.ts';
import type { Context } from '../ports.ts';

/** Reads Services of the cluster, and warns of those that cannot be used. Every method throws store/*. */
export interface ServiceReader {
  find(which: Pick<Service, 'namespace' | 'name'>): Promise<Service | undefined>;
  list(): Promise<readonly Service[]>;
  endpointsOf(service: Service): Promise<readonly EndpointOfService[]>;
}

/**
 * Opens the API of the cluster: that of the datastore, or the one that is configured beside etcd.
 * @throws netconf/needs-orchestrator without one
 */
export async function withClusterApi<T>(context: Context, use: (api: OrchApi) => Promise<T>): Promise<T> {
  const { datastore } = await readConnection(context);
  const access = datastore.type === 'orch' ? datastore.orch : await readApiAccess(context);
  await using api = context.ports.openApi(access);
  return await use(api);
}

/** Returns what `use` reads of the API of the cluster, or why that is not known: nothing leads to it, or it does not answer. */
export async function readIfKnown<T>(
  context: Context,
  use: (api: OrchApi) => Promise<T>,
): Promise<{ readonly value: T } | { readonly unknown: string | undefined }> {
  try {
    return { value: await withClusterApi(context, use) };
  } catch (cause) {
    // Clusters without Kubernetes have none.
    if (isNetplugError(cause, 'netconf/needs-orchestrator')) return { unknown: undefined };
    if (!isNetplugError(cause, 'store/refused') && !isNetplugError(cause, 'store/unavailable')) throw cause;
    return { unknown: cause.message };
  }
}

export function serviceReader(api: OrchApi, { io, signal }: Pick<Context, 'io' | 'signal'>): ServiceReader {
  const valuesOf = <T>(converted: readonly Converted<T>[]): readonly T[] =>
    converted.flatMap(({ value, problems }) => {
      for (const problem of problems) io.stderr(`warning: ${problem}\n`);
      return value === undefined ? [] : [value];
    });
  return {
    find: async ({ namespace, name }) => {
      const answer = await api.get({ ...SERVICES, namespace }, name, signal);
      return answer.outcome === 'ok' ? valuesOf([fromService(answer.value)])[0] : undefined;
    },
    list: async () => valuesOf((await api.list(SERVICES, {}, signal)).map((each) => fromService(each))),
    endpointsOf: async ({ namespace, name }) => {
      const labelSelector = `kubernetes.io/service-name=${name}`;
      const slices = await api.list({ ...ENDPOINT_SLICES, namespace }, { labelSelector }, signal);
      return valuesOf(slices.map((each) => endpointsOfSlice(each))).flat();
    },
  };
}
