// A real API server of Kubernetes with RBAC, alone with its etcd: nothing that runs pods.
import { isIPv6 } from 'node:net';
import { readFile } from 'node:fs/promises';
import { startEtcd } from './etcd.ts';
import { freePort } from './free-port.ts';
import { here, type Place } from './here.ts';
import { type KubernetesRelease, kubernetesProgram } from './components.ts';
import { type Service, until } from './node.ts';
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

/** How an administrator reaches the server, and what was made with it. */
export interface ApiServerAccess {
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
  /** Tokens of the users given at the start, by name. */
  readonly userTokens: Readonly<Record<string, string>>;
}

/** Ends and starts the process of the server. */
export interface ApiServerControl {
  /** Kills the server: connections are refused until `start`. etcd stays. */
  stop(): Promise<void>;
  /** Starts it after `stop` at the same address, from now on in the release if one is given, and waits until it is ready. */
  start(release?: KubernetesRelease): Promise<void>;
  /** Stops it where it is (SIGSTOP): connections stay, and nothing is answered, as long as it is not resumed. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

export interface ApiServerProcess extends ApiServerControl, AsyncDisposable {
  readonly access: ApiServerAccess;
}

/** One of this process. */
export interface OwnApiServer extends ApiServerProcess {
  /** Returns what it has printed since its last start. */
  log(): string;
}

/** A test that waits longer between two looks leaves the processor to what it waits for. */
export const POLL_MS = 250;

const ADMIN: KubeUser = { name: 'admin', groups: ['system:masters'] };

/** Starts etcd when none is given, and an API server that is ready to serve. `await using` ends and removes both. */
export async function runApiServer(options: ApiServerOptions = {}): Promise<OwnApiServer> {
  await using scope = new AsyncDisposableStack();
  // A cluster to play with may stay.
  const tls = scope.use(makeTlsFolder(365));
  const at = options.at ?? {
    place: here,
    etcdUrl: scope.use(await startEtcd()).url,
    address: '127.0.0.1',
    port: await freePort(),
  };
  const url = `https://${isIPv6(at.address) ? `[${at.address}]` : at.address}:${String(at.port)}`;
  const authority = tls.authority('kube-ca');
  const service = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', '10.96.0.1', 'fd00:10:96::1'];
  const serving = authority.issue('kube-apiserver', [at.address, '127.0.0.1', ...service, ...(options.names ?? [])]);
  const kubeletClient = authority.issue('kube-apiserver-kubelet-client');
  const accounts = authority.issue('service-accounts');
  const users = [ADMIN, ...(options.users ?? [])].map((user, index) => ({ ...user, token: `token-${String(index)}` }));
  const lines = users.map(({ token, name, groups = [] }) => `${token},${name},${name},"${groups.join(',')}"\n`);
  const flags = {
    'etcd-servers': at.etcdUrl,
    'bind-address': at.address,
    'secure-port': String(at.port),
    // No test needs the endpoints of the service "kubernetes", and loopback must not be among them.
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
  const kubeconfig = tls.write(
    'admin.kubeconfig',
    kubeconfigOf({ server: url, token: adminToken, authority: await readFile(authority.certFile) }),
  );

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

  const kept = scope.move();
  return {
    access: {
      url,
      etcdUrl: at.etcdUrl,
      dir: tls.dir,
      caFile: authority.certFile,
      adminToken,
      kubeconfig,
      accountKeyFile: accounts.keyFile,
      userTokens: Object.fromEntries(users.map(({ name, token }) => [name, token])),
    },
    log: () => running?.log() ?? '',
    stop,
    start: async (next) => {
      release = next ?? release;
      await start();
    },
    pause: async () => running?.pause(),
    resume: async () => running?.resume(),
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

interface Access {
  readonly server: string;
  readonly token: string;
  readonly authority: Buffer;
}

/** Returns the text of a kubeconfig: YAML takes JSON. */
export function kubeconfigOf({ server, token, authority }: Access): string {
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
