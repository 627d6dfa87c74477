// A real API server of Kubernetes with RBAC, alone with its etcd: nothing that runs pods.
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort, startEtcd } from './etcd.ts';
import { here, type Place } from './here.ts';
import { type KubernetesRelease, kubernetesProgram, program } from './components.ts';
import { type Json, type Service, until } from './node.ts';
import { makeTlsFolder } from './tls.ts';

/** A user that the API server knows by a token from its start on. */
export interface KubeUser {
  readonly name: string;
  readonly groups?: readonly string[];
}

export interface ApiServerOptions {
  /** Where it runs and on which etcd; on free loopback ports with an etcd of its own unless given. */
  readonly at?: { readonly place: Place; readonly etcdUrl: string; readonly address: string; readonly port: number };
  /** Further addresses and names that its certificate is good for. */
  readonly names?: readonly string[];
  readonly users?: readonly KubeUser[];
  /** The release that it begins with; that of the run of the tests unless given. */
  readonly release?: KubernetesRelease | undefined;
  /** Replaces flags or adds some, without the dashes. */
  readonly flags?: Readonly<Record<string, string>>;
}

export interface ApiServer extends AsyncDisposable {
  /** `https://` address and port. */
  readonly url: string;
  readonly etcdUrl: string;
  /** Folder for what belongs to it. */
  readonly dir: string;
  /** Certificate of the authority that issued the server's own. */
  readonly caFile: string;
  /** May do everything. */
  readonly adminToken: string;
  /** File for the administrator. */
  readonly kubeconfig: string;
  /** Key that service accounts' tokens are signed with. */
  readonly accountKeyFile: string;
  /** Runs kubectl as the administrator and returns its standard output; rejects when it fails. */
  kubectl(...args: string[]): Promise<string>;
  /** `kubectl get … -o json`, decoded. */
  get(...args: string[]): Promise<Json>;
  /** `kubectl apply` of objects, or of a text of YAML. */
  apply(manifest: string | readonly object[]): Promise<string>;
  /** `kubectl apply --server-side --force-conflicts` of objects. */
  applyOnServer(objects: readonly object[]): Promise<string>;
  /** A kubeconfig for who has the token; `url` when the server is reached another way. */
  kubeconfigFor(token: string, options?: { readonly url?: string }): Promise<string>;
  /** The token of a user given at the start. */
  userToken(name: string): string;
  /**
   * A token of a service account, `namespace/name`, made with its namespace when missing. It may do nothing but what
   * roles bound to it allow: `kubectl create clusterrolebinding … --serviceaccount=namespace:name`. With `node`, the
   * token is bound to that Node: the API server knows where it is used, and refuses it once the Node is gone.
   */
  tokenFor(account: string, options?: { readonly node?: string }): Promise<string>;
  /** Kills the server; clients find no server until `start`. etcd stays. */
  stop(): Promise<void>;
  /** Starts it after `stop` at the same address, from now on in the release if one is given, and waits until it is ready. */
  start(release?: KubernetesRelease): Promise<void>;
  /** `stop` and `start`. */
  restart(): Promise<void>;
  /** Stops it where it is (SIGSTOP): connections stay, and nothing is answered, as long as it is not resumed. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** What it has printed since its last start. */
  log(): string;
}

/** kubectl is a program to start each time; asking more often would take the time from those that are asked. */
export const POLL_MS = 250;

/** Tokens are bound to their account and end; nothing renews those that tests hand out. */
const LASTING = { expirationSeconds: 31_536_000 };

const ADMIN: KubeUser = { name: 'admin', groups: ['system:masters'] };

/** Starts etcd when none is given, and an API server that is ready to serve. `await using` ends and removes both. */
export async function startApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  await using scope = new AsyncDisposableStack();
  // A cluster to play with may stay.
  const tls = scope.use(makeTlsFolder(365));
  const at = options.at ?? {
    place: here,
    etcdUrl: scope.use(await startEtcd()).url,
    address: '127.0.0.1',
    port: await freePort(),
  };
  const url = `https://${at.address}:${String(at.port)}`;
  const authority = tls.authority('kube-ca');
  const service = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', '10.96.0.1'];
  const serving = authority.issue('kube-apiserver', [at.address, '127.0.0.1', ...service, ...(options.names ?? [])]);
  const kubeletClient = authority.issue('kube-apiserver-kubelet-client');
  const accounts = authority.issue('service-accounts');
  const users = [ADMIN, ...(options.users ?? [])].map((user, index) => ({ ...user, token: `token-${String(index)}` }));
  const lines = users.map(({ token, name, groups = [] }) => `${token},${name},${name},"${groups.join(',')}"\n`);
  const flags = {
    'etcd-servers': at.etcdUrl,
    'bind-address': at.address,
    'secure-port': String(at.port),
    // No test needs the endpoints of the service "kubernetes" here, and loopback must not be among them.
    'advertise-address': '192.0.2.1',
    'endpoint-reconciler-type': 'none',
    'tls-cert-file': serving.certFile,
    'tls-private-key-file': serving.keyFile,
    'client-ca-file': authority.certFile,
    'kubelet-client-certificate': kubeletClient.certFile,
    'kubelet-client-key': kubeletClient.keyFile,
    'kubelet-preferred-address-types': 'InternalIP',
    'token-auth-file': tls.write('tokens.csv', lines.join('')),
    'service-account-issuer': 'https://kubernetes.default.svc',
    'service-account-key-file': accounts.certFile,
    'service-account-signing-key-file': accounts.keyFile,
    'service-cluster-ip-range': '10.96.0.0/16',
    'authorization-mode': 'Node,RBAC',
    // No controller makes the account that every pod would need.
    'disable-admission-plugins': 'ServiceAccount',
    'allow-privileged': 'true',
    ...options.flags,
  };
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  const { token: adminToken } = users[0]!;
  const writeKubeconfig = async (name: string, token: string, server: string): Promise<string> =>
    tls.write(name, kubeconfigOf({ server, token, authority: await readFile(authority.certFile) }));
  const kubeconfig = await writeKubeconfig('admin.kubeconfig', adminToken, url);
  await mkdir(join(tls.dir, 'home'));
  const tryKubectl = async (args: readonly string[], stdin = '') =>
    at.place.run([program('kubectl'), `--kubeconfig=${kubeconfig}`, ...args], {
      stdin,
      env: { HOME: join(tls.dir, 'home') },
    });
  const kubectl = async (args: readonly string[], stdin?: string): Promise<string> => {
    const { status, stdout, stderr } = await tryKubectl(args, stdin);
    if (status !== 0) throw new Error(`kubectl ${args.join(' ')} ended with ${String(status)}:\n${stdout}${stderr}`);
    return stdout;
  };

  let running: Service | undefined;
  let { release } = options;
  const stop = async (): Promise<void> => {
    await running?.stop('KILL');
    running = undefined;
  };
  scope.defer(stop);
  const start = async (): Promise<void> => {
    const server = await at.place.start([kubernetesProgram('kube-apiserver', release), ...args]);
    running = server;
    let hasEnded = false;
    void server.ended.then(() => (hasEnded = true));
    await until(
      async () => {
        if (hasEnded) throw new Error(`the API server ended:\n${server.log()}`);
        return (
          (await at.place.run(['curl', '--silent', '--cacert', authority.certFile, `${url}/readyz`])).stdout === 'ok'
        );
      },
      () => `the API server is ready:\n${server.log().slice(-8000)}`,
      120_000,
      POLL_MS,
    );
  };
  await start();

  let made = 0;
  const kept = scope.move();
  return {
    url,
    etcdUrl: at.etcdUrl,
    dir: tls.dir,
    caFile: authority.certFile,
    adminToken,
    kubeconfig,
    accountKeyFile: accounts.keyFile,
    kubectl: async (...args) => kubectl(args),
    get: async (...args) => JSON.parse(await kubectl(['get', ...args, '--output=json'])),
    apply: async (manifest) =>
      kubectl(['apply', '--filename=-'], typeof manifest === 'string' ? manifest : listOf(manifest)),
    applyOnServer: async (objects) =>
      kubectl(['apply', '--server-side', '--force-conflicts', '--filename=-'], listOf(objects)),
    kubeconfigFor: async (token, { url: server = url } = {}) => {
      made += 1;
      return writeKubeconfig(`${String(made)}.kubeconfig`, token, server);
    },
    userToken: (name) => {
      const user = users.find((known) => known.name === name);
      if (user === undefined) throw new Error(`the API server was started without a user "${name}"`);
      return user.token;
    },
    tokenFor: async (account, { node } = {}) => {
      const [namespace, name] = account.split('/') as [string, string];
      const objects = [
        { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
        { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace, name } },
      ];
      for (const object of objects) {
        const { status, stderr } = await tryKubectl(['create', '--filename=-'], JSON.stringify(object));
        if (status !== 0 && !stderr.includes('AlreadyExists')) throw new Error(stderr);
      }
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
      const bound = node === undefined ? {} : { boundObjectRef: { apiVersion: 'v1', kind: 'Node', name: node } };
      const spec = { ...LASTING, ...bound };
      const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
      return JSON.parse(await kubectl(['create', '--raw', path, '--filename=-'], JSON.stringify(request))).status.token;
    },
    stop,
    start: async (next) => {
      release = next ?? release;
      await start();
    },
    restart: async () => {
      await stop();
      await start();
    },
    pause: async () => running?.pause(),
    resume: async () => running?.resume(),
    log: () => running?.log() ?? '',
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

function listOf(items: readonly object[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, undefined, 2);
}

interface Access {
  readonly server: string;
  readonly token: string;
  readonly authority: Buffer;
}

/** YAML takes JSON. */
function kubeconfigOf({ server, token, authority }: Access): string {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'netplug', cluster: { server, 'certificate-authority-data': authority.toString('base64') } }],
    users: [{ name: 'user', user: { token } }],
    contexts: [{ name: 'netplug', context: { cluster: 'netplug', user: 'user' } }],
    'current-context': 'netplug',
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}
