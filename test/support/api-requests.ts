// Requests of an administrator to an API server, without kubectl's time to start.
import { Agent, request as requestOverTls } from 'node:https';
import { request } from 'node:http';
import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { type ServedKind, ServedKinds } from './served-kinds.ts';
import { readSelection } from './kubectl-selection.ts';
import type { Json } from './node.ts';
import { until } from './until.ts';

export interface RequestOptions {
  readonly body?: unknown;
  /** Content type of the body; plain JSON unless given. */
  readonly type?: string;
  /** Another token than the administrator's. */
  readonly token?: string;
  /** The form of the answer; plain JSON unless given. */
  readonly accept?: string;
}

export interface ApiAnswer {
  readonly status: number;
  readonly body: Json;
}

export interface ApiRequests {
  /** Returns the answer, whatever its status. */
  readonly ask: (method: string, path: string, options?: RequestOptions) => Promise<ApiAnswer>;
  /** Returns the body of the answer. Rejects unless the answer is a success, or has one of the statuses `besides`. */
  readonly call: (
    method: string,
    path: string,
    options?: RequestOptions & { readonly besides?: readonly number[] },
  ) => Promise<Json>;
  /** Returns what `kubectl get … -o json` prints: kinds, names, namespace and selectors are given in its words. */
  readonly get: (...args: string[]) => Promise<Json>;
  /**
   * Applies objects, or documents of YAML, on the server as the manager `kubectl`, and takes over fields of other managers.
   * Returns once the server serves the kinds of new definitions.
   */
  readonly apply: (manifest: string | readonly object[]) => Promise<void>;
  /** Changes an object, named as for `get`, by a JSON merge patch; `status` and `scale` are subresources. */
  readonly patch: (object: readonly string[], body: object, subresource?: string) => Promise<Json>;
}

/** How the test reaches the server: directly, or by the socket of a proxy that runs where the server is. */
export type Route =
  | { readonly url: string; readonly caFile: string; readonly token: string }
  | { readonly socketPath: () => Promise<string> };

const MERGE_PATCH = 'application/merge-patch+json';
const MANAGER = 'fieldManager=kubectl&fieldValidation=Strict';
const ESTABLISHED_MS = 60_000;

export function apiRequests(route: Route): ApiRequests {
  const ask = askerBy(route);
  const call: ApiRequests['call'] = async (method, path, { besides = [], ...options } = {}) => {
    const { status, body } = await ask(method, path, options);
    if (status < 300 || besides.includes(status)) return body;
    // The words of kubectl, by which tests know the reason.
    throw new Error(`${method} ${path}: Error from server (${String(body?.reason)}): ${String(body?.message ?? body)}`);
  };
  const kinds = new ServedKinds({ ask });
  const pathTo = ({ root, resource, isNamespaced }: ServedKind, namespace: string | undefined): string =>
    `${root}${isNamespaced && namespace !== undefined ? `/namespaces/${namespace}` : ''}/${resource}`;

  const list = async (kind: ServedKind, namespace: string | undefined, query: URLSearchParams): Promise<Json[]> => {
    const { items = [] } = await call('GET', `${pathTo(kind, namespace)}?${query.toString()}`);
    // The server leaves both away in lists, kubectl shows them.
    return items.map((item: Json) => ({ apiVersion: kind.apiVersion, kind: kind.kind, ...item }));
  };

  return {
    ask,
    call,
    get: async (...args) => {
      const { kinds: named, names, namespace, labelSelector, fieldSelector } = readSelection(args);
      const served = await Promise.all(named.map(async (name) => kinds.named(name)));
      if (names.length > 0) {
        const [kind] = served as [ServedKind];
        const found: Json[] = [];
        for (const name of names) found.push(await call('GET', `${pathTo(kind, namespace ?? 'default')}/${name}`));
        return names.length === 1 ? found[0] : { kind: 'List', items: found };
      }
      const query = new URLSearchParams({
        ...(labelSelector === undefined ? {} : { labelSelector }),
        ...(fieldSelector === undefined ? {} : { fieldSelector }),
      });
      const items = await Promise.all(served.map(async (kind) => list(kind, namespace, query)));
      return { kind: 'List', items: items.flat() };
    },
    apply: async (manifest) => {
      const definitions: Json[] = [];
      for (const object of objectsOf(manifest)) {
        const { apiVersion, kind, metadata } = object;
        const served = await kinds.ofObject(apiVersion, kind);
        const path = `${pathTo(served, metadata.namespace ?? 'default')}/${String(metadata.name)}`;
        await call('PATCH', `${path}?${MANAGER}&force=true`, { body: object, type: 'application/apply-patch+yaml' });
        if (kind === 'CustomResourceDefinition') definitions.push({ path, ...object.spec });
      }
      for (const { path, group, names, versions } of definitions) {
        await until(async () => isEstablished(await call('GET', path)), `${path} is established`, ESTABLISHED_MS);
        for (const { name, served } of versions)
          if (served === true) await kinds.ofObject(`${group}/${name}`, names.kind);
      }
    },
    patch: async (object, body, subresource) => {
      const { kinds: named, names, namespace } = readSelection(object);
      const path = `${pathTo(await kinds.named(named[0]!), namespace ?? 'default')}/${names[0]!}`;
      return call('PATCH', `${path}${subresource === undefined ? '' : `/${subresource}`}`, { body, type: MERGE_PATCH });
    },
  };
}

function isEstablished({ status }: Json): boolean {
  return status?.conditions?.some((each: Json) => each.type === 'Established' && each.status === 'True') === true;
}

function objectsOf(manifest: string | readonly object[]): readonly Json[] {
  const documents: readonly Json[] =
    typeof manifest === 'string' ? parseAllDocuments(manifest).map((each) => each.toJS()) : manifest;
  return documents.filter((each) => each !== null).flatMap((each) => (each.kind === 'List' ? each.items : [each]));
}

function askerBy(route: Route): ApiRequests['ask'] {
  const connections = new Agent({ keepAlive: true, maxSockets: 16 });
  const ca = 'url' in route ? readFileSync(route.caFile, 'utf8') : undefined;
  const attempt: ApiRequests['ask'] = async (method, path, { body, type = 'application/json', token, accept } = {}) => {
    const socketPath = 'url' in route ? undefined : await route.socketPath();
    return new Promise((resolve, reject) => {
      const by = token ?? ('url' in route ? route.token : undefined);
      const headers = {
        'content-type': type,
        ...(by === undefined ? {} : { authorization: `Bearer ${by}` }),
        ...(accept === undefined ? {} : { accept }),
        ...('url' in route ? {} : { host: 'localhost' }),
      };
      const sent =
        'url' in route
          ? requestOverTls(new URL(path, route.url), { method, ca, headers, agent: connections })
          : request({ socketPath, path, method, headers });
      sent.on('response', (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.on('error', reject);
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: decode(text) }));
      });
      sent.on('error', (cause) => {
        reject(Object.assign(cause, { isStale: sent.reusedSocket }));
      });
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  };
  return async (...args) => {
    try {
      return await attempt(...args);
    } catch (cause) {
      // The server was restarted after the connection was made.
      if ((cause as { isStale?: boolean }).isStale !== true) throw cause;
      return attempt(...args);
    }
  };
}

function decode(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
