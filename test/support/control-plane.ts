// API server, controller manager and scheduler on a test node that has etcd.
import { type ApiServer, startApiServer } from './kube.ts';
import { type KubernetesRelease, kubernetesProgram } from './components.ts';
import { logged } from './logged.ts';
import type { Families, LanAddresses } from './lan.ts';
import type { Service, TestNode } from './node.ts';

/** Of services, and from where the controller manager gives each node a part. */
const RANGES: Readonly<Record<Families, { readonly services: string; readonly nodes: string }>> = {
  both: { services: '10.96.0.0/16,fd00:10:96::/112', nodes: '10.244.0.0/16,fd00:10:244::/48' },
  ipv6: { services: 'fd00:10:96::/112', nodes: 'fd00:10:244::/48' },
};

export const PROXY_USER = 'system:kube-proxy';

export interface ControlPlaneOptions {
  readonly node: TestNode;
  readonly addresses: LanAddresses;
  readonly families: Families;
  readonly nodeNames: readonly string[];
  /** Further addresses it is reached at. */
  readonly names: readonly string[];
  readonly logs: string;
  readonly release: KubernetesRelease | undefined;
}

export interface ControlPlane extends AsyncDisposable {
  readonly api: ApiServer;
  /** Replaces its programs, the API server first, by those of the release. */
  changeKubernetes(release: KubernetesRelease): Promise<void>;
}

/** The user that a kubelet is. */
export function kubeletUser(nodeName: string): string {
  return `system:node:${nodeName}`;
}

export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { node, addresses, families, nodeNames, names, logs, release } = options;
  const address = families === 'both' ? addresses.ipv4 : addresses.ipv6;
  await using scope = new AsyncDisposableStack();
  const api = scope.use(
    await startApiServer({
      at: {
        place: logged(node, logs, 'kube-apiserver'),
        etcdUrl: 'http://127.0.0.1:2379',
        address,
        port: 6443,
      },
      release,
      names: [addresses.ipv6, ...names],
      users: [
        { name: 'system:kube-controller-manager' },
        { name: 'system:kube-scheduler' },
        { name: PROXY_USER },
        ...nodeNames.map((name) => ({ name: kubeletUser(name), groups: ['system:nodes'] })),
      ],
      flags: {
        'bind-address': families === 'both' ? '0.0.0.0' : '::',
        'advertise-address': address,
        'endpoint-reconciler-type': 'lease',
        'service-cluster-ip-range': RANGES[families].services,
        'disable-admission-plugins': '',
      },
    }),
  );
  const kubeconfig = async (user: string): Promise<string> =>
    `--kubeconfig=${await api.kubeconfigFor(api.userToken(user))}`;
  const alone = ['--leader-elect=false', '--bind-address=127.0.0.1', `--cert-dir=${api.dir}`];
  const commands = {
    'kube-controller-manager': [
      await kubeconfig('system:kube-controller-manager'),
      '--use-service-account-credentials',
      `--service-account-private-key-file=${api.accountKeyFile}`,
      `--root-ca-file=${api.caFile}`,
      '--allocate-node-cidrs',
      `--cluster-cidr=${RANGES[families].nodes}`,
      ...(families === 'both' ? [] : ['--node-cidr-mask-size=64']),
      `--service-cluster-ip-range=${RANGES[families].services}`,
      ...alone,
    ],
    'kube-scheduler': [await kubeconfig('system:kube-scheduler'), ...alone],
  } as const;
  // They end with the node.
  let running: readonly Service[] = [];
  const start = async (of: KubernetesRelease | undefined): Promise<void> => {
    const services: Service[] = [];
    for (const name of ['kube-controller-manager', 'kube-scheduler'] as const)
      services.push(await logged(node, logs, name).start([kubernetesProgram(name, of), ...commands[name]]));
    running = services;
  };
  await start(release);
  const kept = scope.move();
  return {
    api,
    changeKubernetes: async (next) => {
      await api.stop();
      await api.start(next);
      for (const service of running) await service.stop('KILL');
      await start(next);
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}
