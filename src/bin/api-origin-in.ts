import { urlHost } from '../net/address.ts';

/** Returns the origin of the API server of the cluster in which the process runs, also with a datastore in etcd. */
export function apiOriginIn(env: NodeJS.ProcessEnv): readonly string[] {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '443' } = env;
  if (host === '') return [];
  return [`https://${urlHost(host)}:${port}`];
}
