// A control plane with simulated nodes, and operators on this host, each with the account of the operator and nothing more.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { InstallationStatus } from '../../src/model/installation-status.ts';
import { crdManifests } from '../../src/install/cluster/definitions/crd-manifests.ts';
import { operatorObjects } from '../../src/install/cluster/operator-deployment.ts';
import { program } from './components.ts';
import { freePort } from './free-port.ts';
import { here } from './here.ts';
import { type ApiServer, startApiServer } from './kube.ts';
import type { Service } from './node.ts';
import { type SimulatedKubelets, startSimulatedKubelets } from './simulated-kubelets.ts';
import { until } from './until.ts';
import { BUILT } from './built.ts';

const PROGRAM = join(BUILT, 'netplug-operator');
export const IN_NAMESPACE = '--namespace=netplug-system';
export const SERVES = { Available: 'True', Progressing: 'False', Degraded: 'False' };
export const DEPLOYED_MS = 90_000;
const RELEASE = 'v3.27.0';
const CONTROLLERS = ['daemonset', 'deployment', 'replicaset', 'statefulset', 'garbage-collector', 'namespace'];
const USERS = [{ name: 'system:kube-controller-manager' }, { name: 'system:kube-scheduler' }];

export const OPERATOR_OBJECTS = operatorObjects({
  release: RELEASE,
  images: { node: 'netplug.io/netplug-node:v3.27.0', tools: 'netplug.io/netplug:v3.27.0', pullSecrets: [] },
  replicas: 1,
  override: {},
});

export interface OperatorCluster extends AsyncDisposable {
  readonly api: ApiServer;
  readonly kubelets: SimulatedKubelets;
  /** With the rights of the operator's account. */
  readonly kubeconfig: string;
}

/** API server, controllers of workloads, scheduler, and nodes whose kubelets are simulated. No operator runs yet. */
export async function startOperatorCluster(nodes: number): Promise<OperatorCluster> {
  await using scope = new AsyncDisposableStack();
  const api = scope.use(await startApiServer({ users: USERS }));
  const kubeconfig = async (user: string): Promise<string> =>
    `--kubeconfig=${await api.kubeconfigFor(api.userToken(user))}`;
  const alone = ['--leader-elect=false', `--cert-dir=${api.dir}`, '--bind-address=127.0.0.1'];
  const manager = await here.start([
    program('kube-controller-manager'),
    await kubeconfig('system:kube-controller-manager'),
    `--controllers=${CONTROLLERS.map((name) => `${name}-controller`).join(',')}`,
    '--use-service-account-credentials=false',
    `--service-account-private-key-file=${api.accountKeyFile}`,
    `--secure-port=${String(await freePort())}`,
    ...alone,
  ]);
  scope.defer(async () => manager.stop('KILL'));
  const scheduler = await here.start([
    program('kube-scheduler'),
    await kubeconfig('system:kube-scheduler'),
    `--secure-port=${String(await freePort())}`,
    ...alone,
  ]);
  scope.defer(async () => scheduler.stop('KILL'));
  // What controllers of accounts of their own may do is not what is tested here.
  await api.kubectl(
    'create',
    'clusterrolebinding',
    'manager',
    '--clusterrole=cluster-admin',
    '--user=system:kube-controller-manager',
  );
  await api.apply(OPERATOR_OBJECTS.filter(({ kind }) => kind !== 'Deployment'));
  const kubelets = scope.use(await startSimulatedKubelets(api, { nodes }));
  const account = await api.kubeconfigFor(await api.tokenFor('netplug-system/netplug-operator'));
  const kept = scope.move();
  return { api, kubelets, kubeconfig: account, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

/** The definition of Installation, as a chart installs it before the operator. */
export function installationDefinition(): object {
  return crdManifests().find(({ metadata }) => (metadata as { name: string }).name === 'installations.netplug.io')!;
}

export interface RunningOperator extends Service, AsyncDisposable {
  readyz(): Promise<string>;
  metric(series: string): Promise<number | undefined>;
}

export async function launchOperator(name: string, kubeconfig: string): Promise<RunningOperator> {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: run "make build" first`);
  const health = `127.0.0.1:${String(await freePort())}`;
  const service = await here.start([PROGRAM], {
    env: { POD_NAME: name, NETPLUG_ORCHCONFIG: kubeconfig, NETPLUG_HEALTH_ADDRESS: health },
  });
  const ask = async (path: string): Promise<{ readonly status: number; readonly body: string }> => {
    try {
      const answer = await fetch(`http://${health}${path}`, { signal: AbortSignal.timeout(20_000) });
      return { status: answer.status, body: await answer.text() };
    } catch {
      return { status: 0, body: '' };
    }
  };
  await until(
    async () => (await ask('/healthz')).status === 200,
    () => `operator "${name}" runs:\n${service.log()}`,
  );
  return {
    ...service,
    readyz: async () => (await ask('/readyz')).body.trim(),
    metric: async (series) => {
      const line = (await ask('/metrics')).body.split('\n').find((each) => each.startsWith(`${series} `));
      return line === undefined ? undefined : Number(line.slice(series.length));
    },
    [Symbol.asyncDispose]: async () => service.stop('KILL'),
  };
}

/** Returns what tests do with the installation; `log` is shown when a condition does not come. */
export function installationIn(api: () => ApiServer, log: () => string) {
  async function install(spec: object): Promise<void> {
    // As people do. An empty spec in place of another one is refused when the server itself applies it.
    await api().kubectlApply([
      { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' }, spec },
    ]);
  }

  async function status(): Promise<InstallationStatus> {
    const { status: found = {} } = await api().get('installation', 'default');
    return found;
  }

  async function condition(type: string): Promise<{ status: string; reason: string; message: string }> {
    const found = (await status()).conditions?.find((each) => each.type === type);
    return { status: '', reason: '', message: '', ...found };
  }

  async function become(conditions: Readonly<Record<string, string>>, generation?: number): Promise<void> {
    let last: InstallationStatus = {};
    await until(
      async () => {
        last = await status();
        if (generation !== undefined && last.observedGeneration !== generation) return false;
        return Object.entries(conditions).every(
          ([type, wanted]) => last.conditions?.find((each) => each.type === type)?.status === wanted,
        );
      },
      () => `${JSON.stringify(conditions)}:\n${JSON.stringify(last, undefined, 1)}\n${log().slice(-4000)}`,
      DEPLOYED_MS,
      250,
    );
  }

  async function generation(): Promise<number> {
    return (await api().get('installation', 'default')).metadata.generation;
  }

  async function node(): Promise<Awaited<ReturnType<ApiServer['get']>>> {
    return api().get('daemonset', 'netplug-node', IN_NAMESPACE);
  }
  return { install, status, condition, become, generation, node };
}
