// The operator switches the fan-out on and off, with exactly the rights of its account: what starts, and what goes, when.
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  IN_NAMESPACE,
  installationDefinition,
  installationIn,
  launchOperator,
  type OperatorCluster,
  type RunningOperator,
  SERVES,
  startOperatorCluster,
} from '../support/operator.ts';
import type { Json } from '../support/node.ts';
import { until } from '../support/until.ts';
import { NEW, runTool } from '../support/upgradable-cluster.ts';
import { putServerLease } from '../support/typha-process.ts';

const NODES = ['n1', 'n2', 'n3'];
const WIDE = ['clusterrolebinding', 'netplug-agent-datastore'] as const;
const REDUCED = ['clusterrolebinding', 'netplug-agent-fanned-out'] as const;
const SERVERS = ['deployment', 'netplug-typha', IN_NAMESPACE] as const;
const WAITS = 'ImagePullBackOff';
const ON = { typha: { mode: 'Enabled' } };
/** Everything of the fan-out, by kinds. */
const KINDS = 'deployments,poddisruptionbudgets,serviceaccounts,roles,rolebindings,leases';
const WATCHED_MS = 60_000;

const scope = new AsyncDisposableStack();
let cluster: OperatorCluster;
let operator: RunningOperator;

beforeAll(async () => {
  cluster = scope.use(await startOperatorCluster(NODES.length));
  await cluster.api.apply([installationDefinition()]);
  operator = scope.use(await launchOperator('operator-1', cluster.kubeconfig));
  await install({});
  await become(SERVES);
}, 240_000);
afterAll(async () => scope.disposeAsync());

const { install, status, become, generation, node } = installationIn(
  () => cluster.api,
  () => operator.log(),
);

async function exists(...of: readonly string[]): Promise<boolean> {
  return cluster.api.get(...of).then(
    () => true,
    () => false,
  );
}

async function usesServers(): Promise<boolean> {
  return JSON.stringify((await node()).spec.template).includes('NETPLUG_TYPHA');
}

async function messageOf(component: string): Promise<string> {
  return (await status()).components?.find(({ name }) => name === component)?.message ?? '';
}

function startOn(nodes: readonly string[], reason?: string): void {
  for (const each of nodes) cluster.kubelets.failOn(each, reason);
}

function operatorDeployment(): object {
  const labels = { 'app.kubernetes.io/name': 'netplug-operator' };
  const containers = [{ name: 'main', image: `netplug.io/netplug-operator:${NEW}` }];
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      name: 'netplug-operator',
      namespace: 'netplug-system',
      labels: { ...labels, 'app.kubernetes.io/part-of': 'netplug' },
    },
    spec: { replicas: 0, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  };
}

/** Names of the objects of the fan-out in the namespace of netplug. */
async function left(): Promise<readonly string[]> {
  const { items } = await cluster.api.get(KINDS, IN_NAMESPACE);
  return items
    .map(({ kind, metadata }: { kind: string; metadata: { name: string } }) => `${kind}/${metadata.name}`)
    .filter((name: string) => /typha|agent-servers/.test(name));
}

it('starts servers, then agents that use them, and takes the wide rights of these last', async () => {
  startOn(NODES, WAITS);
  await install(ON);
  await until(async () => exists(...SERVERS), 'the servers are made', WATCHED_MS);
  await until(
    async () => (await messageOf('netplug-node')).includes('waits for stage "typha"'),
    'agents wait for servers',
    WATCHED_MS,
  );
  expect({ uses: await usesServers(), wide: await exists(...WIDE), reduced: await exists(...REDUCED) }).toEqual({
    uses: false,
    wide: true,
    reduced: true,
  });

  // One server of two is not enough for agents to begin.
  const { items } = await cluster.api.get('pods', '--selector=app.kubernetes.io/name=netplug-typha', IN_NAMESPACE);
  const [first, second] = items.map((pod: Json) => pod.spec.nodeName) as readonly string[];
  expect(first).not.toBe(second);
  startOn([first!]);
  const available = async (): Promise<unknown> => (await cluster.api.get(...SERVERS)).status.availableReplicas;
  await until(async () => (await available()) === 1, 'one server is there', WATCHED_MS);
  await until(
    async () => (await messageOf('netplug-typha')).includes('1 available'),
    'the operator has seen it',
    WATCHED_MS,
  );
  expect(await usesServers()).toBe(false);

  startOn(NODES);
  await until(usesServers, 'agents use servers', WATCHED_MS);
  const { status: servers, spec } = await cluster.api.get(...SERVERS);
  expect([spec.replicas, servers.availableReplicas, servers.updatedReplicas]).toEqual([2, 2, 2]);
  await become(SERVES, await generation());
  expect({ wide: await exists(...WIDE), reduced: await exists(...REDUCED) }).toEqual({ wide: false, reduced: true });
  expect((await status()).typha).toEqual({ replicas: 2, connected: 0, nodes: 3 });
}, 240_000);

it('gives the number that the user fixes, as far as nodes can run servers, and shows the agents that these serve', async () => {
  await putServerLease(cluster.api, 3);
  await install({ typha: { mode: 'Enabled', replicas: 3 } });
  await become(SERVES, await generation());
  expect((await status()).typha).toEqual({ replicas: 3, connected: 3, nodes: 3 });
  await install({ typha: { mode: 'Enabled', replicas: 9 } });
  await become(SERVES, await generation());
  expect((await cluster.api.get(...SERVERS)).spec.replicas).toBe(3);
  expect((await status()).warnings).toEqual([expect.stringContaining('room for 3 of 9 servers')]);
}, 240_000);

it('gives agents their wide rights first, and takes servers and their Leases when no agent uses them', async () => {
  startOn(['n1'], WAITS);
  // The operator of this test is a process; by its Deployment the tool knows the method.
  await cluster.api.apply([operatorDeployment()]);
  const off = runTool(['cluster', 'typha', 'off', '--yes'], { KUBECONFIG: cluster.api.kubeconfig });
  await until(async () => !(await usesServers()), 'agents stop using servers', WATCHED_MS);
  expect(await exists(...WIDE)).toBe(true);
  // The agent of a node still uses them.
  expect(await exists(...SERVERS)).toBe(true);
  startOn(NODES);
  const { status: ended, stdout, stderr } = await off;
  expect({ ended, stderr: ended === 0 ? '' : stderr }).toEqual({ ended: 0, stderr: '' });
  expect(stdout).toMatch(/spec.typha.mode: Enabled -> Disabled\nnetplug-typha is off: agents follow the API server\n$/);
  await become(SERVES, await generation());
  await until(async () => (await left()).length === 0, 'nothing is left', 120_000);
  expect(await exists(...REDUCED)).toBe(false);
  expect(await exists(...WIDE)).toBe(true);
  expect((await status()).typha).toBeUndefined();
}, 240_000);
