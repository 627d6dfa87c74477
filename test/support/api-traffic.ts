// What an agent costs the API server: counted by the server's own metrics and by a proxy before it.
import type { ApiServer } from './kube.ts';
import type { TcpProxy } from './tcp-proxy.ts';

export type Watches = ReadonlyMap<string, number>;

/** Returns how many watches the API server serves of each resource, its own among them. */
export async function watchesOf(server: Pick<ApiServer, 'kubectl'>): Promise<Watches> {
  const watches = new Map<string, number>();
  const metrics = await server.kubectl('get', '--raw', '/metrics');
  for (const [, labels = '', count] of metrics.matchAll(/^apiserver_longrunning_requests\{(.*)\} (\d+)$/gm)) {
    if (!labels.includes('verb="WATCH"')) continue;
    const resource = /\bresource="(.*?)"/.exec(labels)?.[1] ?? '';
    watches.set(resource, (watches.get(resource) ?? 0) + Number(count));
  }
  return watches;
}

/** Returns how often the API server was asked to do that with one object of the resource. */
export async function requestsOf(
  server: Pick<ApiServer, 'kubectl'>,
  { verb, resource }: { readonly verb: 'GET' | 'PUT'; readonly resource: string },
): Promise<number> {
  const metrics = await server.kubectl('get', '--raw', '/metrics');
  const counts = [...metrics.matchAll(/^apiserver_request_total\{(.*)\} (\d+)$/gm)].filter(([, labels = '']) =>
    [`verb="${verb}"`, `resource="${resource}"`, 'scope="resource"'].every((label) => labels.includes(label)),
  );
  return counts.reduce((sum, [, , count]) => sum + Number(count), 0);
}

/** Returns the watches that have been added since, by resource. */
export function addedWatches(before: Watches, now: Watches): Readonly<Record<string, number>> {
  const added = [...now].map(([resource, count]) => [resource, count - (before.get(resource) ?? 0)] as const);
  return Object.fromEntries(added.filter(([, count]) => count > 0).sort());
}

export interface Traffic {
  readonly bytes: number;
  /** Open at the end. */
  readonly connections: number;
}

/** Returns what goes through the proxy while the work is done: bytes of both directions, TLS included. */
export async function trafficDuring(proxy: TcpProxy, work: () => Promise<unknown>): Promise<Traffic> {
  const before = proxy.bytes;
  await work();
  return { bytes: proxy.bytes - before, connections: proxy.connections };
}
