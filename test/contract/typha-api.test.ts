// What netplug-typha has from an API server: records as they are stored, tokens of agents, Leases.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { policyQueries } from '../../src/cache/policy-records.ts';
import { RecordCache } from '../../src/cache/record-cache.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { FollowedRecord, FollowStore, Query } from '../../src/datastore/follow.ts';
import { apiVersionOf } from '../../src/datastore/orch/follow.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { isFannedOut } from '../../src/datastore/typha/topics.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { ServerEntry } from '../../src/stream/handshake.ts';
import { leasesInApi } from '../../src/stream/server-leases.ts';
import { TokenIdentity, tokenReviewer } from '../../src/stream/token-identity.ts';
import { nodeName } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { connectedStore, type TlsFixture, typhaOverTls } from '../support/typha-over-tls.ts';
import { PATIENCE_MS } from '../support/until.ts';

const signal = new AbortController().signal;
const WITHIN = { timeout: PATIENCE_MS };
const NAMESPACE = 'netplug-system';
const AUDIENCE = 'netplug-typha';
const AGENT = 'system:serviceaccount:netplug-system:netplug-agent';
const queries: readonly Query[] = [
  ...policyQueries(nodeName('node-a')).filter(isFannedOut),
  { kind: 'resources', of: 'BGPPeer' },
  { kind: 'block-routes' },
];

let server: OrchApiServer;
let api: OrchApi;
let source: Store;
let direct: Store;
let fixture: TlsFixture;
beforeAll(async () => {
  server = await startOrchApiServer();
  const access = { from: 'file', path: server.kubeconfig } as const;
  api = new OrchApi(access);
  source = openOrchStore(access, { withStored: true });
  direct = openOrchStore(access);
  fixture = await typhaOverTls(source, { versionOf: apiVersionOf });
});
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]();
  await source?.[Symbol.asyncDispose]();
  await direct?.[Symbol.asyncDispose]();
  await api?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** Follows in the background, and returns the records as one text each, without versions. */
function followed(store: FollowStore): { readonly texts: () => string[]; readonly end: () => void } {
  const over = new AbortController();
  const cache = new RecordCache();
  void (async () => {
    for await (const event of store.follow(queries, { signal: over.signal })) cache.apply(event);
  })().catch(() => undefined);
  return { texts: () => [...cache.records()].map(textOf).sort(), end: () => over.abort() };
}

function textOf({ version: _version, ...record }: FollowedRecord): string {
  const plain = (key: string, value: unknown): unknown => {
    if (key === 'resourceVersion' || key === 'generation' || key === 'managedFields') return undefined;
    if (value instanceof Map) return [...value];
    if (typeof value === 'bigint') return String(value);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  };
  return JSON.stringify(record, plain);
}

describe('records from an API server, through netplug-typha', () => {
  it('are those that an agent follows by itself, while they change and after deletions', async () => {
    const [through, own] = [followed(connectedStore(fixture, { node: 'node-a' })), followed(direct)];
    const named = (name: string): object => ({ name, namespace: 'default' });
    const allow = { action: 'Allow', protocol: 'TCP', source: { selector: 'app == "web"' } };
    const policy = (order: number): object => ({
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: named('allow'),
      spec: { order, selector: 'all()', ingress: [allow] },
    });
    await server.apply([
      policy(1),
      {
        apiVersion: 'netplug.io/v3',
        kind: 'GlobalNetworkSet',
        metadata: { name: 'set' },
        spec: { nets: ['10.0.0.0/8'] },
      },
      {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: named('web'),
        spec: { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress'] },
      },
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { ...named('robot'), labels: { team: 'a' } } },
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { ...named('web-0'), labels: { app: 'web' } },
        spec: {
          nodeName: 'node-b',
          serviceAccountName: 'robot',
          containers: [{ name: 'c', image: 'x', ports: [{ name: 'http', containerPort: 80 }] }],
        },
      },
    ]);
    const difference = (): string[] => [...new Set(through.texts()).symmetricDifference(new Set(own.texts()))];
    await expect.poll(() => through.texts().some((text) => text.includes('web-0')), WITHIN).toBe(true);
    await expect.poll(() => through.texts().some((text) => text.includes('"order":1,')), WITHIN).toBe(true);
    await expect.poll(difference, WITHIN).toEqual([]);
    await server.apply([policy(2)]);
    await server.kubectl('delete', 'networkpolicies.networking.k8s.io', 'web');
    await expect.poll(() => through.texts().some((text) => text.includes('"order":2,')), WITHIN).toBe(true);
    await expect.poll(() => through.texts().some((text) => text.includes('"key":"default/web"')), WITHIN).toBe(false);
    await expect.poll(difference, WITHIN).toEqual([]);
    expect(through.texts().length).toBeGreaterThan(5);
    for (const { end } of [through, own]) end();
  });
});

describe('the token of an agent', () => {
  it('proves the node of its pod, for the audience of the server alone', async () => {
    await server.tokenFor(`${NAMESPACE}/netplug-agent`);
    await server.apply([
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'agent-1', namespace: NAMESPACE },
        spec: { nodeName: 'node-a', serviceAccountName: 'netplug-agent', containers: [{ name: 'c', image: 'x' }] },
      },
      { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' } },
    ]);
    const tokenFor = async (audience: string, ...bound: string[]): Promise<string> => {
      const flags = [`--namespace=${NAMESPACE}`, `--audience=${audience}`, ...bound];
      return (await server.kubectl('create', 'token', 'netplug-agent', ...flags)).trim();
    };
    const review = tokenReviewer(api, AUDIENCE);
    const identity = new TokenIdentity({ clock: systemClock, review, audience: AUDIENCE, users: [AGENT] });
    const ofPod = ['--bound-object-kind=Pod', '--bound-object-name=agent-1'];
    expect(await identity.nodeOf(await tokenFor(AUDIENCE, ...ofPod), signal)).toBe('node-a');
    for (const token of [
      await tokenFor('another', ...ofPod),
      await tokenFor(AUDIENCE),
      await server.tokenFor(`${NAMESPACE}/netplug-agent`, { node: 'node-a' }),
      'garbage',
    ])
      await expect(identity.nodeOf(token, signal)).rejects.toMatchObject({ code: 'stream/identity-refused' });
  });
});

describe('the Leases of servers', () => {
  it('are written, read and removed', async () => {
    const leases = leasesInApi(api, { program: 'netplug-typha', namespace: NAMESPACE });
    const base: ServerEntry = { ...fixture.entry, name: 'typha-1' };
    // The clock of the server is ahead; what is read is by that of the API server.
    const leased = { release: '1.0.0', clients: 2, oldestClient: '0.9.0', renewedMs: Date.now() + 3_600_000 };
    for (const isLeaving of [false, true]) {
      await leases.write({ entry: { ...base, isLeaving }, ...leased }, signal);
      await expect
        .poll(async () => leases.list(signal), WITHIN)
        .toEqual([{ entry: { ...base, isLeaving }, ...leased, renewedMs: expect.any(Number) }]);
    }
    const [read] = await leases.list(signal);
    expect(Math.abs(Number(read?.renewedMs) - Date.now())).toBeLessThan(600_000);
    await leases.remove('typha-1', signal);
    await expect.poll(async () => leases.list(signal), WITHIN).toEqual([]);
  });
});
