// An API server as tests use it: with requests, tokens and kubectl.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apiRequests, type ApiRequests, type Route } from './api-requests.ts';
import {
  type ApiServerAccess,
  type ApiServerControl,
  type ApiServerOptions,
  type ApiServerProcess,
  kubeconfigOf,
  runApiServer,
} from './api-server-process.ts';
import { openApiSocket } from './api-socket.ts';
import { borrowApiServer, mayBorrow } from './borrowed-api-server.ts';
import { program } from './components.ts';
import { here, type Place } from './here.ts';

export { type ApiServerOptions, POLL_MS } from './api-server-process.ts';

export interface ApiServer extends Omit<ApiServerAccess, 'userTokens'>, ApiServerControl, ApiRequests, AsyncDisposable {
  /** Runs kubectl as the administrator and returns its standard output; rejects when it fails. */
  kubectl(...args: string[]): Promise<string>;
  /** Runs `kubectl apply` for objects, or a text of YAML, and returns its standard output: for what kubectl itself does and says. */
  kubectlApply(manifest: string | readonly object[], ...flags: string[]): Promise<string>;
  /** A kubeconfig for the token; `url` when the server is reached another way. */
  kubeconfigFor(token: string, options?: { readonly url?: string }): Promise<string>;
  /** The token of a user given at the start. */
  userToken(name: string): string;
  /**
   * A token of a service account, `namespace/name`, made with its namespace when missing. It may do nothing but what
   * roles bound to it allow: `kubectl create clusterrolebinding … --serviceaccount=namespace:name`. With `node`, the
   * token is bound to that Node: the API server knows where it is used, and refuses it once the Node is gone.
   */
  tokenFor(account: string, options?: { readonly node?: string }): Promise<string>;
  /** `stop` and `start`. */
  restart(): Promise<void>;
}

/** Tokens are bound to their account and end; nothing renews those that tests hand out. */
const LASTING = { expirationSeconds: 31_536_000 };

/**
 * Returns an API server that is ready to serve, with nothing in it but what it makes itself. One with the usual flags and
 * place is borrowed from the run of the tests where that lends some; others are started. `await using` gives back or ends it.
 */
export async function startApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  const process = mayBorrow(options) ? await borrowApiServer('bare') : await runApiServer(options);
  return usableServer(process, options.at?.place ?? here);
}

/** Returns the server with what tests do with it. */
export function usableServer(server: ApiServerProcess, place: Place): ApiServer {
  const { userTokens, ...access } = server.access;
  const { url, dir, caFile, adminToken, kubeconfig } = access;
  const home = join(dir, 'home');
  mkdirSync(home, { recursive: true });
  const kubectl = async (args: readonly string[], stdin = ''): Promise<string> => {
    const command = [program('kubectl'), `--kubeconfig=${kubeconfig}`, ...args];
    const { status, stdout, stderr } = await place.run(command, { stdin, env: { HOME: home } });
    if (status !== 0) throw new Error(`kubectl ${args.join(' ')} ended with ${String(status)}:\n${stdout}${stderr}`);
    return stdout;
  };
  let proxy: ReturnType<typeof openApiSocket> | undefined;
  const route: Route =
    place === here
      ? { url, caFile, token: adminToken }
      : { socketPath: async () => (await (proxy ??= openApiSocket({ start: place.start, dir }, kubeconfig))).path };
  const requests = apiRequests(route);
  const { call } = requests;
  let made = 0;
  return {
    ...access,
    ...requests,
    kubectl: async (...args) => kubectl(args),
    kubectlApply: async (manifest, ...flags) =>
      kubectl(['apply', ...flags, '--filename=-'], typeof manifest === 'string' ? manifest : listOf(manifest)),
    kubeconfigFor: async (token, { url: server = url } = {}) => {
      made += 1;
      const path = join(dir, `${String(made)}.kubeconfig`);
      writeFileSync(path, kubeconfigOf({ server, token, authority: readFileSync(caFile) }));
      return Promise.resolve(path);
    },
    userToken: (name) => {
      const token = userTokens[name];
      if (token === undefined) throw new Error(`the API server was started without a user "${name}"`);
      return token;
    },
    tokenFor: async (account, { node } = {}) => {
      const [namespace, name] = account.split('/') as [string, string];
      const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
      await call('POST', '/api/v1/namespaces', { body: { metadata: { name: namespace } }, besides: [409] });
      await call('POST', accounts, { body: { metadata: { name } }, besides: [409] });
      const bound = node === undefined ? {} : { boundObjectRef: { apiVersion: 'v1', kind: 'Node', name: node } };
      const { status } = await call('POST', `${accounts}/${name}/token`, { body: { spec: { ...LASTING, ...bound } } });
      return status.token;
    },
    stop: async () => server.stop(),
    start: async (release) => server.start(release),
    restart: async () => {
      await server.stop();
      await server.start();
    },
    pause: async () => server.pause(),
    resume: async () => server.resume(),
    [Symbol.asyncDispose]: async () => {
      await (await proxy)?.[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

function listOf(items: readonly object[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, undefined, 2);
}
