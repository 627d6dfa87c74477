// What an installation with the fan-out lets its accounts do, on a real API server, and what the API server makes of the
// requests of agents.
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adoptedObjects } from '../../src/apps/operator/adopted-objects.ts';
import { planPruning } from '../../src/apps/operator/inventory.ts';
import { clusterObjects } from '../../src/install/cluster/cluster-objects.ts';
import { settingsOf } from '../../src/install/cluster/settings-of.ts';
import { objectName, referenceKey } from '../../src/kube/objects/reference.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { InstallationSpec } from '../../src/model/installation.ts';
import type { Manifest } from '../../src/model/manifest.ts';
import { SERVER_LABEL } from '../../src/stream/server-lease.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import type { Json } from '../support/node.ts';
import { until } from '../support/until.ts';

const SYSTEM = 'netplug-system';
const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM}/leases`;
const MERGE = 'application/merge-patch+json';
/** What every node follows, and agents with the fan-out do not. */
const FOLLOWED = [
  'netplugnodes.netplug.io',
  'networkpolicies.netplug.io',
  'globalnetworkpolicies.netplug.io',
  'profiles.netplug.io',
  'networksets.netplug.io',
  'globalnetworksets.netplug.io',
  'hostendpoints.netplug.io',
  'agentconfigurations.netplug.io',
  'bgpconfigurations.netplug.io',
  'bgppeers.netplug.io',
  'networkpolicies.networking.k8s.io',
  'serviceaccounts',
  'endpointslices.discovery.k8s.io',
];
/** What calls need besides, which agents may follow themselves as well. */
const FOR_CALLS = [
  'ippools.netplug.io',
  'ipreservations.netplug.io',
  'ipamconfigurations.netplug.io',
  'clusterinformations.netplug.io',
  'ipblocks.netplug.io',
  'namespaces',
];

const scope = new AsyncDisposableStack();
let server: ApiServer;
const tokens = new Map<string, string>();

beforeAll(async () => {
  server = scope.use(await startApiServer());
  await server.apply(objectsWith({ typha: { mode: 'Enabled' } }));
  for (const account of ['netplug-agent', 'netplug-typha', 'netplug-orch-controllers'])
    tokens.set(account, await server.tokenFor(`${SYSTEM}/${account}`));
  const refused = async () => (await write('netplug-orch-controllers', lease('probe', true))).status === 403;
  // A policy takes effect a moment after it was made.
  await until(refused, 'the policy takes effect', 60_000, 100);
});
afterAll(async () => scope.disposeAsync());

function objectsWith(spec: InstallationSpec): readonly Manifest[] {
  const settings = settingsOf(spec, {
    release: 'v3.27.0',
    variant: 'policy-and-networking',
    datastore: { type: 'orch' },
    defaultPools: [],
    nodes: 3,
  });
  return clusterObjects(settings).flatMap(({ objects }) => objects);
}

function tokenOf(account: string): string {
  return tokens.get(account) ?? '';
}

/** Reports whether the account may do that with the resource, by the words of the API server. */
async function may(account: string, verb: string, named: string, namespace?: string): Promise<boolean> {
  const [resource = '', ...group] = named.split('.');
  const resourceAttributes = {
    verb,
    resource,
    group: group.join('.'),
    ...(namespace === undefined ? {} : { namespace }),
  };
  const { body } = await server.ask('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
    body: { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: { resourceAttributes } },
    token: tokenOf(account),
  });
  return body.status.allowed;
}

async function allowed(account: string, verbs: readonly string[], resources: readonly string[]): Promise<string[]> {
  const asked = resources.flatMap((resource) => verbs.map((verb) => [verb, resource] as const));
  const answers = await Promise.all(asked.map(async ([verb, resource]) => may(account, verb, resource)));
  return asked.filter((_, index) => answers[index] === true).map((each) => each.join(' '));
}

function lease(name: string, isServers: boolean): Json {
  const labels = isServers ? { [SERVER_LABEL]: 'netplug-typha' } : {};
  return { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name, labels }, spec: {} };
}

async function write(account: string, body: Json): Promise<{ readonly status: number; readonly body: Json }> {
  return server.ask('POST', LEASES, { body, token: tokenOf(account) });
}

describe('rights with the fan-out', () => {
  it('let servers follow what agents no longer follow themselves', async () => {
    const every = FOLLOWED.flatMap((resource) => ['list', 'watch'].map((verb) => `${verb} ${resource}`));
    expect(await allowed('netplug-typha', ['list', 'watch'], FOLLOWED)).toEqual(every);
    expect(await allowed('netplug-typha', ['list', 'watch'], FOR_CALLS)).toHaveLength(2 * FOR_CALLS.length);
    // The wide role is not part of such an installation: who switches the fan-out on has it pruned.
    expect(await allowed('netplug-agent', ['list', 'watch'], FOLLOWED)).toEqual([]);
  });

  it('let agents do what calls need, publish their node, and find servers', async () => {
    const own = [
      'ipblocks.netplug.io',
      'ippools.netplug.io',
      'clusterinformations.netplug.io',
      'namespaces',
      'pods',
      'nodes',
    ];
    expect(await allowed('netplug-agent', ['watch'], own)).toEqual(own.map((resource) => `watch ${resource}`));
    expect(await allowed('netplug-agent', ['get', 'create', 'update'], ['netplugnodes.netplug.io'])).toHaveLength(3);
    expect(await may('netplug-agent', 'list', 'leases.coordination.k8s.io', SYSTEM)).toBe(true);
    expect(await may('netplug-agent', 'list', 'leases.coordination.k8s.io', 'kube-node-lease')).toBe(false);
  });

  it('let servers review tokens, and write nothing but Leases of their namespace', async () => {
    expect(await may('netplug-typha', 'create', 'tokenreviews.authentication.k8s.io')).toBe(true);
    const writes = ['create', 'update', 'patch', 'delete'];
    const kinds = [...FOLLOWED, 'ipblocks.netplug.io', 'workloadendpoints.netplug.io', 'pods', 'nodes', 'secrets'];
    expect(await allowed('netplug-typha', writes, kinds)).toEqual([]);
    expect(await allowed('netplug-typha', ['get', 'list', 'watch'], ['secrets', 'configmaps', 'nodes'])).toEqual([]);
    expect(await may('netplug-typha', 'create', 'leases.coordination.k8s.io', SYSTEM)).toBe(true);
    expect(await may('netplug-typha', 'create', 'leases.coordination.k8s.io', 'kube-system')).toBe(false);
  });
});

describe('the Leases of servers', () => {
  const LABEL = { metadata: { labels: { [SERVER_LABEL]: 'netplug-typha' } } };
  const ask = async (account: string, method: string, name: string, body?: Json) =>
    server.ask(method, `${LEASES}/${name}`, {
      body,
      type: MERGE,
      ...(account === '' ? {} : { token: tokenOf(account) }),
    });

  it('are written by servers alone, and deleted by an administrator', async () => {
    expect(await write('netplug-typha', lease('one', true))).toMatchObject({ status: 201 });
    for (const other of [
      await write('netplug-orch-controllers', lease('two', true)),
      await ask('', 'PATCH', 'one', LABEL),
    ])
      expect(other).toMatchObject({
        status: 403,
        body: { message: expect.stringContaining('only netplug-typha writes') },
      });
    const renewed = { spec: { holderIdentity: 'one' } };
    expect(await ask('', 'PATCH', 'one', renewed)).toMatchObject({ status: 403 });
    expect(await ask('netplug-typha', 'PATCH', 'one', renewed)).toMatchObject({ status: 200 });
    expect(await ask('', 'DELETE', 'one')).toMatchObject({ status: 200 });
  });

  it('cannot be made of another Lease, nor can servers take the one by which another program leads', async () => {
    expect(await write('netplug-orch-controllers', lease('netplug-orch-controllers', false))).toMatchObject({
      status: 201,
    });
    expect(await ask('', 'PATCH', 'netplug-orch-controllers', LABEL)).toMatchObject({ status: 403 });
    for (const [method, body] of [
      ['PATCH', LABEL],
      ['PATCH', { spec: { holderIdentity: 'mine' } }],
      ['DELETE', undefined],
    ] as const) {
      const { status, body: said } = await ask('netplug-typha', method, 'netplug-orch-controllers', body);
      expect({ status, said: said.message }).toEqual({
        status: 403,
        said: expect.stringContaining('netplug-typha writes only Leases with the label'),
      });
    }
    expect(await write('netplug-typha', lease('mine', false))).toMatchObject({ status: 403 });
    expect(await ask('', 'PATCH', 'netplug-orch-controllers', { spec: {} })).toMatchObject({ status: 200 });
  });
});

it('is known to an operator that adopts the manifest: what its settings do not contain is pruned', async () => {
  await using api = new OrchApi({ from: 'file', path: server.kubeconfig }, {});
  const adopted = await adoptedObjects(api, new AbortController().signal);
  const without = new Set(objectsWith({}).map(objectName));
  expect(planPruning(adopted, without).map(referenceKey).sort()).toEqual([
    'ClusterRole netplug-agent-fanned-out',
    'ClusterRole netplug-typha',
    'ClusterRoleBinding netplug-agent-fanned-out',
    'ClusterRoleBinding netplug-typha',
    'Deployment netplug-system/netplug-typha',
    'PodDisruptionBudget netplug-system/netplug-typha',
    'Role netplug-system/netplug-agent-servers',
    'Role netplug-system/netplug-typha-leases',
    'RoleBinding netplug-system/netplug-agent-servers',
    'RoleBinding netplug-system/netplug-typha-leases',
    'ServiceAccount netplug-system/netplug-typha',
  ]);
  const desired = new Set(objectsWith({ typha: { mode: 'Enabled' } }).map(objectName));
  expect(planPruning(adopted, desired)).toEqual([]);
});

describe('the requests of agents', () => {
  /** Returns the uids of the schema and the level that the API server sorted a request of the account into. */
  const sortedBy = async (account: string, path: string): Promise<readonly unknown[]> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${tokenOf(account)}` };
      request(new URL(path, server.url), { ca: readFileSync(server.caFile), headers }, (answer) => {
        answer.resume();
        resolve(['flowschema', 'prioritylevel'].map((each) => answer.headers[`x-kubernetes-pf-${each}-uid`]));
      })
        .on('error', reject)
        .end();
    });

  it('wait for one another in a level of their own', async () => {
    const uidOf = async (kind: string): Promise<unknown> => (await server.get(kind, 'netplug-agent')).metadata.uid;
    const own = [await uidOf('flowschemas'), await uidOf('prioritylevelconfigurations')];
    const isSorted = async () =>
      JSON.stringify(await sortedBy('netplug-agent', '/api/v1/pods')) === JSON.stringify(own);
    await until(isSorted, 'the schema takes effect', 60_000, 200);
    for (const path of ['/version', `${LEASES}/x`, '/api/v1/nodes/x', '/apis/discovery.k8s.io/v1/endpointslices'])
      expect(await sortedBy('netplug-agent', path)).toEqual(own);
    expect(await sortedBy('netplug-typha', '/api/v1/pods')).not.toEqual(own);
  });
});
