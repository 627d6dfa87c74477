// Asks the tool what policies say of connections, and what a change would do, on both datastores, with no more rights than the tool has.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { CTL_DATASTORES, type CtlDatastore, type CtlRun, spawnCtl } from '../support/ctl-datastores.ts';

const signal = new AbortController().signal;
const PODS = [
  { name: 'web', node: 'node-a', address: '10.65.0.1' },
  { name: 'db', node: 'node-b', address: '10.65.0.2' },
];

function endpointOf({ name, node, address }: (typeof PODS)[number]): WorkloadEndpoint {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: `${node.replace('-', '--')}-orch-${name}-eth0`, namespace: 'shop', labels: { app: name } },
    spec: {
      orchestrator: 'orch',
      node,
      network: 'net',
      containerID: name,
      pod: name,
      endpoint: 'eth0',
      interfaceName: `npl${name}`,
      mac: '',
      ipNetworks: [`${address}/32`],
      profiles: ['kns.shop'],
      ipam: 'netplug-ipam',
    },
  };
}

describe.each(CTL_DATASTORES)('commands about policies on $type', ({ type, start }) => {
  let ctl: CtlDatastore;
  beforeAll(async () => {
    ctl = await start();
    for (const pod of PODS) {
      const { name, node } = pod;
      await ctl.server?.putNode(node);
      await ctl.server?.putPod({ namespace: 'shop', name, node, labels: { app: name } });
      await ctl.store.commit([{ kind: 'put-endpoint', endpoint: endpointOf(pod) }], signal);
    }
    if (type === 'kv') {
      const rules = [{ action: 'Allow' }];
      await apply('Profile', { name: 'kns.shop' }, { ingress: rules, egress: rules });
    }
  });
  afterAll(async () => ctl?.[Symbol.asyncDispose]());

  async function apply(kind: string, metadata: object, spec: object): Promise<void> {
    const resource = JSON.stringify({ apiVersion: 'netplug.io/v3', kind, metadata, spec });
    const { status, stderr } = await ctl.run(['apply', '-f', '-'], { stdin: resource });
    if (status !== 0) throw new Error(stderr);
  }

  async function why(...argv: readonly string[]): Promise<CtlRun> {
    return ctl.run(['policy', 'why', ...argv]);
  }

  it('names the policy and the rule that decide at each end', async () => {
    const open = await why('shop/web', 'shop/db', '--port', '5432');
    expect(open).toMatchObject({ status: 0, stderr: '' });
    expect(open.stdout).toContain('no policy decides; Profile kns.shop, ingress[0]: Allow all traffic');

    const source = { selector: "app == 'web'" };
    await apply(
      'NetworkPolicy',
      { name: 'db', namespace: 'shop' },
      {
        selector: "app == 'db'",
        ingress: [{ action: 'Allow', protocol: 'TCP', source, destination: { ports: [5432] } }],
      },
    );
    const allowed = await why('shop/web', '10.65.0.2', '--port', '5432');
    expect(allowed.status).toBe(0);
    expect(allowed.stdout).toContain(
      'NetworkPolicy shop/db, ingress[0]: Allow TCP from (netplug/namespace == "shop" && app == "web") to port 5432',
    );
    const denied = await why('shop/web', 'shop/db', '--port', '22', '-o', 'json');
    expect(denied.status).toBe(1);
    expect(JSON.parse(denied.stdout)).toMatchObject({
      verdict: 'deny',
      connections: [{ egress: { verdict: 'allow' }, ingress: { verdict: 'deny' } }],
    });
    expect(await why('shop/none', 'shop/db')).toMatchObject({ status: 66 });

    const { status, stdout } = await ctl.run(['explain', 'endpoint', 'shop/db']);
    expect(status).toBe(0);
    expect(stdout).toContain('    app=db\n');
    expect(stdout).toContain(
      'ingress: policies in order, then denied\n    NetworkPolicy shop/db\n      ingress[0]: Allow TCP',
    );
    expect(stdout).toContain('egress: no policy applies, profiles decide\n  profiles, in order\n    kns.shop\n');
  });

  it('answers a program of its own as it answers a call in the process', async () => {
    const argv = ['policy', 'why', 'shop/web', 'shop/db', '--port', '22'];
    expect(await spawnCtl(argv, { env: ctl.env })).toEqual(await ctl.run(argv));
  });

  it('compares reach before and after a change, maps it, and recommends policies from flows', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'netplug-ctl-policy-'));
    const file = async (name: string, content: object): Promise<string> => {
      const path = join(folder, name);
      await writeFile(path, JSON.stringify(content));
      return path;
    };
    const closed = {
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: { name: 'no-exit', namespace: 'shop' },
      spec: { selector: "app == 'web'", types: ['Egress'], order: 1 },
    };
    const seen = {
      source: { address: '10.65.0.1', pod: 'shop/web' },
      destination: { address: '10.65.0.2', pod: 'shop/db' },
    };
    const flows = await file('flows.json', {
      node: 'node-b',
      recordedSince: '2026-11-23T10:00:00.000Z',
      flows: [
        {
          ...seen,
          protocol: 6,
          port: 5432,
          verdict: 'allowed',
          isReplied: true,
          firstSeen: '2026-11-23T10:00:01.000Z',
          lastSeen: '2026-11-23T10:00:01.000Z',
          count: 7,
        },
      ],
      rules: [],
      lostReports: 0,
      forgotten: 0,
    });
    const plan = await ctl.run(['policy', 'plan', '-f', await file('new.json', closed), '--flows', flows]);
    expect(plan).toMatchObject({ status: 1, stderr: '' });
    expect(plan.stdout).toContain('NetworkPolicy shop/no-exit: created');
    expect(plan.stdout).toContain('  7x shop/web (10.65.0.1) -> shop/db (10.65.0.2), TCP port 5432');
    expect(await ctl.run(['get', 'networkpolicies', 'no-exit', '-n', 'shop'])).toMatchObject({ status: 66 });

    const map = await ctl.run(['policy', 'map', '-n', 'shop', '-o', 'svg']);
    expect(map).toMatchObject({ status: 0, stderr: '' });
    expect(map.stdout).toMatch(/^<svg[^]*shop[^]*<\/svg>\s*$/);

    const recommended = await ctl.run(['policy', 'recommend', 'shop', '--flows', flows]);
    expect(recommended).toMatchObject({ status: 0, stderr: '' });
    expect(recommended.stdout).toMatch(/kind: NetworkPolicy[^]*app: db[^]*port: 5432/);
    await rm(folder, { recursive: true });
  });

  it.runIf(type === 'orch')('explains policies of Kubernetes by their own names and rules', async () => {
    await ctl.server?.apply([
      {
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'web-out', namespace: 'shop' },
        spec: {
          podSelector: { matchLabels: { app: 'web' } },
          policyTypes: ['Egress'],
          egress: [
            { to: [{ ipBlock: { cidr: '192.0.2.0/24' } }] },
            {
              to: [{ podSelector: { matchLabels: { app: 'gone' } } }, { podSelector: { matchLabels: { app: 'db' } } }],
              ports: [{ protocol: 'TCP', port: 5432 }],
            },
          ],
        },
      },
    ]);
    const allowed = await why('shop/web', 'shop/db', '--port', '5432');
    expect(allowed.status).toBe(0);
    expect(allowed.stdout).toMatch(
      /Kubernetes NetworkPolicy shop\/web-out, egress\[1\]: Allow TCP to .*app == "db".* port 5432/,
    );
    const denied = await why('shop/web', '198.51.100.1', '--port', '443');
    expect(denied.status).toBe(1);
    expect(denied.stdout).toContain('no rule matches of Kubernetes NetworkPolicy shop/web-out');
  });

  it.runIf(type === 'orch')(
    'follows a Service of the API to each of its backends, by its name and its address',
    async () => {
      const metadata = { name: 'db', namespace: 'shop' };
      await ctl.server?.apply([
        {
          apiVersion: 'v1',
          kind: 'Service',
          metadata,
          spec: { ports: [{ name: 'sql', port: 80, targetPort: 'sql', protocol: 'TCP' }] },
        },
        {
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'db' } },
          addressType: 'IPv4',
          endpoints: [{ addresses: ['10.65.0.2'], nodeName: 'node-b' }, { addresses: ['192.0.2.9'] }],
          ports: [{ name: 'sql', port: 5432, protocol: 'TCP' }],
        },
      ]);
      const { spec } = JSON.parse(
        (await ctl.server?.kubectl('get', 'service', 'db', '-n', 'shop', '-o', 'json')) ?? '{}',
      );
      const [byName, byAddress] = [
        await why('shop/web', 'svc/db', '--port', '80'),
        await why('shop/web', spec.clusterIP),
      ];
      expect(byName).toMatchObject({ status: 0, stderr: '' });
      expect(byAddress).toEqual(byName);
      expect(byName.stdout).toContain(
        `Service shop/db (${spec.clusterIP}) is translated to 10.65.0.2 port 5432 on node node-a\n`,
      );
      expect(byName.stdout).toContain('-> 192.0.2.9: allowed');
    },
  );
});
