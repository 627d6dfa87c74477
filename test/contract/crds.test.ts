import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CUSTOM_KINDS } from '../../src/install/cluster/definitions/crd-schemas.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { decodeResource } from '../../src/model/decode-resource.ts';
import { KINDS } from '../../src/model/kinds.ts';
import { exampleOf } from '../../src/model/resource-reference.ts';
import { nodeName } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const never = new AbortController().signal;

describe('the custom resources of netplug', () => {
  let server: OrchApiServer;
  let store: Store;

  beforeAll(async () => {
    server = await startOrchApiServer();
    store = openOrchStore({ from: 'file', path: await server.callerConfig('admin tool') });
  });
  afterAll(async () => {
    await store?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const object = (kind: string, name: string, spec: unknown): object => ({
    apiVersion: 'netplug.io/v3',
    kind,
    metadata: { name },
    spec,
  });
  const pool = (spec: object): object => object('IPPool', 'a', { cidr: '10.0.0.0/16', ...spec });
  const slot = { id: 'x', handle: 'h', node: 'n', network: 'n', containerId: 'c', ifName: 'e', at: 't', chosenBy: 'r' };
  const block = (change: object): object =>
    object('IPBlock', '10-0-0-0-30', { format: 1, cidr: '10.0.0.0/30', slots: { 0: slot }, free: '1-3', ...change });

  it('can be applied again and again', async () => {
    for (const file of ['crds.yaml', 'rbac.yaml']) {
      const text = readFileSync(join(import.meta.dirname, '../../manifests', file), 'utf8');
      await server.kubectlApply(text);
      const lines = (await server.kubectlApply(text)).trim().split('\n');
      expect(lines.filter((line) => !line.endsWith(' unchanged'))).toEqual([]);
    }
  });

  it('take the example of every kind, as people and as netplug write it', async () => {
    await server.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }]);
    for (const kind of CUSTOM_KINDS) {
      await server.apply([exampleOf(kind)]);
      const decoded = decodeResource(exampleOf(kind));
      await server.apply('resource' in decoded ? [decoded.resource] : []);
      const { name, namespace } = KINDS[kind].example.metadata;
      const id = { kind, name, ...(namespace === undefined ? {} : { namespace }) };
      expect(await store.findResource(id, never)).toMatchObject(
        'resource' in decoded ? { spec: decoded.resource.spec } : {},
      );
    }
    await server.empty();
  });

  it('are listed by kubectl under their short names and as a category, with columns', async () => {
    await server.apply([
      pool({ natOutgoing: true }),
      object('IPAMConfiguration', 'default', {}),
      block({ node: 'n1' }),
      object('BGPPeer', 'p', { peerIP: '192.0.2.1:1790', asNumber: 64_513 }),
      object('BGPPeer', 'rr', { nodeSelector: '!has(rr)', peerSelector: 'has(rr)' }),
      object('BGPConfiguration', 'default', { nodeToNodeMeshEnabled: false }),
    ]);
    expect(await server.kubectl('get', 'ipp')).toMatch(
      /NAME +CIDR +SELECTOR +UNUSABLE +AGE\na +10\.0\.0\.0\/16 +all\(\) /,
    );
    expect(await server.kubectl('get', 'pools', '-o', 'wide')).toMatch(/NAT .*BLOCKSIZE.*USES[^]*true .*Workload/);
    expect(await server.kubectl('get', 'ipamconfig')).toMatch(/STRICTAFFINITY +MAXBLOCKSPERNODE[^]*false +0 /);
    expect(await server.kubectl('get', 'ipb')).toMatch(/CIDR +NODE +AGE[^]*10\.0\.0\.0\/30 +n1 /);
    expect(await server.kubectl('get', 'bgppeers')).toMatch(/PEERIP +NODE +ASN +AGE\np +192\.0\.2\.1:1790 +64513 /);
    expect(await server.kubectl('get', 'bgpconfig')).toMatch(
      /LOGSEVERITY +MESHENABLED +ASNUMBER +AGE[^]*default +false /,
    );
    const all = await server.kubectl('get', 'netplug', '-o', 'name');
    expect(all.trim().split('\n').sort()).toEqual([
      'bgpconfiguration.netplug.io/default',
      'bgppeer.netplug.io/p',
      'bgppeer.netplug.io/rr',
      'ipamconfiguration.netplug.io/default',
      'ipblock.netplug.io/10-0-0-0-30',
      'ippool.netplug.io/a',
    ]);
    // What is refused next is refused for itself, not as a change of what is here.
    await server.empty();
  });

  it.each<[string, object, string]>([
    ['a pool without a CIDR', object('IPPool', 'a', {}), 'spec.cidr'],
    ['a pool without a spec', { ...pool({}), spec: undefined }, 'spec'],
    ['a CIDR that is none', pool({ cidr: 'ten' }), 'spec.cidr'],
    ['a word outside a closed list', pool({ ipipMode: 'Sometimes' }), 'spec.ipipMode'],
    ['both encapsulations at once', pool({ ipipMode: 'Always', vxlanMode: 'CrossSubnet' }), 'spec'],
    ['a text where a truth value belongs', pool({ disabled: 'true' }), 'spec.disabled'],
    ['a block size that no family has', pool({ blockSize: 8 }), 'spec.blockSize'],
    ...[
      '169.254.0.0/16',
      '169.254.7.0/26',
      '168.0.0.0/5',
      '127.0.0.0/8',
      '224.0.0.0/4',
      '239.1.0.0/16',
      '0.0.0.0/0',
      '0.0.0.0/8',
      '128.0.0.0/1',
      '255.255.255.0/24',
      'fe80::/10',
      'fe80::/64',
      'ff00::/8',
      '::/0',
      '::/96',
      '::1/128',
    ].map((cidr): [string, object, string] => [
      `a pool over ${cidr}, which is for no pod`,
      pool({ cidr }),
      // Another CIDR than that of a pool of the name is refused as well.
      'spec.cidr: Forbidden: overlaps the',
    ]),
    ['a pool of IPv4-mapped addresses', pool({ cidr: '::ffff:10.0.0.0/120' }), 'is not a CIDR for pods'],
    ['a block size of the other family', pool({ blockSize: 122 }), 'spec'],
    ['an IPv6 block size that is too small', pool({ cidr: 'fd00::/64', blockSize: 64 }), 'spec'],
    ['a block that does not fit into the pool', pool({ cidr: '10.0.0.0/28' }), 'spec'],
    ['IP-in-IP for IPv6', pool({ cidr: 'fd00::/64', ipipMode: 'Always' }), 'spec'],
    ['no use at all', pool({ allowedUses: [] }), 'spec.allowedUses'],
    ['another configuration than the one', object('IPAMConfiguration', 'other', {}), 'metadata.name'],
    ['fewer than no blocks', object('IPAMConfiguration', 'default', { maxBlocksPerNode: -1 }), 'spec.maxBlocksPerNode'],
    [
      'reservations that are no list',
      object('IPReservation', 'a', { reservedCIDRs: '10.0.0.1' }),
      'spec.reservedCIDRs',
    ],
    ['a peer that is neither an address nor nodes', object('BGPPeer', 'a', {}), 'spec'],
    [
      'a peer that is both',
      object('BGPPeer', 'a', { peerIP: '192.0.2.1', asNumber: 1, peerSelector: 'all()' }),
      'spec',
    ],
    ['a peer without its AS number', object('BGPPeer', 'a', { peerIP: '192.0.2.1' }), 'spec'],
    ['nodes as peers with an AS number', object('BGPPeer', 'a', { peerSelector: 'all()', asNumber: 1 }), 'spec'],
    [
      'a peer of one node and of many',
      object('BGPPeer', 'a', { node: 'n1', nodeSelector: 'all()', peerSelector: 'all()' }),
      'spec',
    ],
    ['an AS number that is none', object('BGPConfiguration', 'default', { asNumber: 0 }), 'spec.asNumber'],
    ['a host endpoint without a node', object('HostEndpoint', 'a', { interfaceName: '*' }), 'spec.node'],
    ['a host endpoint that is nowhere', object('HostEndpoint', 'a', { node: 'n1' }), 'spec'],
    [
      'an interface with too long a name',
      object('HostEndpoint', 'a', { node: 'n', interfaceName: 'a'.repeat(16) }),
      'interfaceName',
    ],
    ['a policy before and beside tracking', object('GlobalNetworkPolicy', 'a', { doNotTrack: true }), 'spec'],
    [
      'a policy for half of the packets',
      object('GlobalNetworkPolicy', 'a', { preDNAT: true, doNotTrack: true, applyOnForward: true }),
      'spec',
    ],
    [
      'an action that is none',
      object('NetworkPolicy', 'a', { ingress: [{ action: 'allow' }] }),
      'spec.ingress[0].action',
    ],
    ['a rule without an action', object('Profile', 'a', { egress: [{}] }), 'spec.egress[0].action'],
    [
      'a port that is a list',
      object('Profile', 'a', { egress: [{ action: 'Allow', destination: { ports: [[80]] } }] }),
      'ports',
    ],
    ['networks that are no list', object('NetworkSet', 'a', { nets: '10.0.0.0/8' }), 'spec.nets'],
    ['the installation under another name', object('Installation', 'mine', {}), 'metadata.name'],
    [
      'an unknown address manager',
      object('Installation', 'default', { cni: { ipam: { type: 'Other' } } }),
      'spec.cni.ipam.type',
    ],
    ['the controllers under another name', object('ControllersConfiguration', 'node.a', {}), 'metadata.name'],
    [
      'a switch that is neither on nor off',
      object('ControllersConfiguration', 'default', { controllers: { node: { hostEndpoint: { autoCreate: 'Yes' } } } }),
      'autoCreate',
    ],
    ['settings with an invalid name', object('AgentConfiguration', 'n1', {}), 'metadata.name'],
    [
      'a warm pool size above 1024',
      object('AgentConfiguration', 'node.n1', { warmPoolSize: 4096 }),
      'spec.warmPoolSize',
    ],
    ['a cluster under another name', object('ClusterInformation', 'mine', {}), 'metadata.name'],
    ['a block without its form', block({ format: undefined }), 'spec.format'],
    ['a slot without a holder', block({ slots: { 0: {} } }), 'spec.slots'],
  ])('refuse %s from every writer [orch-datastore]', async (_, written, field) => {
    await expect(server.apply([written])).rejects.toThrow(field);
  });

  it('refuse another CIDR or block size of a pool, and take every other change', async () => {
    await server.empty();
    await server.apply([pool({ cidr: 'FD00::/64', blockSize: 122 })]);
    await server.apply([pool({ cidr: 'fd00::/64', blockSize: 122, disabled: true })]);
    await expect(server.apply([pool({ cidr: 'fd00::/65', blockSize: 122 })])).rejects.toThrow('spec.cidr');
    await expect(server.apply([pool({ cidr: 'fd00::/64', blockSize: 123 })])).rejects.toThrow('blockSize cannot be');
    await server.empty();
  });

  it('are reported and skipped when they are wrong in ways that no schema detects', async () => {
    await server.empty();
    const good = object('IPPool', 'good', { cidr: '10.0.0.0/16', colour: 'blue' });
    const wrong = [
      object('IPPool', 'host-bits', { cidr: '10.1.0.1/16' }),
      object('IPPool', 'selector', { cidr: '10.2.0.0/16', nodeSelector: 'rack = 7' }),
      object('IPReservation', 'words', { reservedCIDRs: ['some addresses'] }),
      object('IPBlock', 'elsewhere', { format: 1, cidr: '10.0.0.0/30', slots: {}, free: '0-3' }),
      object('IPBlock', '10-0-0-4-30', { format: 2, cidr: '10.0.0.4/30', slots: {}, free: '0-3' }),
    ];
    await server.apply([good, ...wrong]);
    const view = await store.readNodeView(nodeName('n1'), undefined, never);
    expect(view.pools.map(({ value }) => value.metadata.name)).toEqual(['good']);
    expect(view.problems).toEqual([
      expect.stringMatching(/^Cannot understand IPPool "host-bits": spec\.cidr: .*"10\.1\.0\.0\/16"/),
      expect.stringMatching(/^Cannot understand IPPool "selector": spec\.nodeSelector: /),
      expect.stringMatching(/^Cannot understand IPReservation "words": /),
    ]);
    const { blocks, problems } = await store.listBlocks(never);
    expect(blocks).toEqual([]);
    expect([...problems].sort()).toEqual([
      expect.stringMatching(/^Cannot understand IPBlock "10-0-0-4-30": format: /),
      expect.stringMatching(/^Cannot understand IPBlock "elsewhere": its CIDR belongs into "10-0-0-0-30"/),
    ]);
    // The range stays claimed as long as an object of its name is there.
    expect(
      await store.listClaims(
        view.pools.map(() => ({ base: { family: 4, value: 0n }, prefixBits: 0 })),
        never,
      ),
    ).toHaveLength(1);
  });

  it('keep what kubectl users add through a write of netplug', async () => {
    await server.empty();
    const labelled = {
      ...pool({ colour: 'blue' }),
      metadata: { name: 'a', labels: { team: 'x' }, finalizers: ['x.y/z'] },
    };
    await server.apply([labelled]);
    const read = await store.findResource({ kind: 'IPPool', name: 'a' }, never);
    await store.updateResource({ ...read!, spec: { ...read!.spec, disabled: true } }, never);
    const now = await server.get('ippool', 'a');
    expect(now).toMatchObject({
      metadata: { labels: { team: 'x' }, finalizers: ['x.y/z'] },
      spec: { colour: 'blue', disabled: true },
    });
    await server.kubectl('patch', 'ippool', 'a', '--type=merge', '--patch={"metadata":{"finalizers":null}}');
  });

  const rightsOf = async (account: string): Promise<readonly string[]> => {
    const user = `--as=system:serviceaccount:netplug-system:${account}`;
    const list = await server.kubectl('auth', 'can-i', '--list', '--namespace=shop', user);
    const rules = list.split('\n').filter((line) => /^\S+ .*\[(get|create|list|patch|update|delete|\*)/.test(line));
    // What Kubernetes lets every account do.
    const common = /^(\[\/|selfsubject|clustertrustbundles\.)/;
    const resources = rules.filter((line) => !common.test(line));
    const inOrder = (verbs: string): string => `[${verbs.split(' ').sort().join(' ')}]`;
    const rights = resources.map((line) => line.replace(/( *\[\])+ */, ' ').trim());
    return rights.map((line) => line.replace(/\[(.*)\]/, (_, verbs: string) => inOrder(verbs))).sort();
  };

  it('are the only objects that the plugin may write, beside warnings', async () => {
    expect(await rightsOf('netplug-cni')).toEqual([
      'clusterinformations.netplug.io [get]',
      'events [create]',
      'ipamconfigurations.netplug.io [get]',
      'ipblocks.netplug.io [create delete get list update]',
      'ippools.netplug.io [get list]',
      'ipreservations.netplug.io [list]',
      'namespaces [get]',
      'nodes [get]',
      'pods [get]',
      'workloadendpoints.netplug.io [create delete get list update]',
    ]);
  });

  it('are the only objects that the agent may write, beside notes on the status of nodes and warnings', async () => {
    expect(await rightsOf('netplug-agent')).toEqual([
      'agentconfigurations.netplug.io [list watch]',
      'bgpconfigurations.netplug.io [list watch]',
      'bgppeers.netplug.io [list watch]',
      'clusterinformations.netplug.io [create get list update watch]',
      'endpointslices.discovery.k8s.io [list watch]',
      'events [create]',
      'globalnetworkpolicies.netplug.io [list watch]',
      'globalnetworksets.netplug.io [list watch]',
      'hostendpoints.netplug.io [list watch]',
      'ipamconfigurations.netplug.io [get list watch]',
      'ipblocks.netplug.io [create delete get list update watch]',
      'ippools.netplug.io [get list watch]',
      'ipreservations.netplug.io [list watch]',
      'namespaces [get list watch]',
      'netplugnodes.netplug.io [create get list update watch]',
      'networkpolicies.netplug.io [list watch]',
      'networkpolicies.networking.k8s.io [list watch]',
      'networksets.netplug.io [list watch]',
      'nodereports.netplug.io [create get update]',
      'nodes [get list watch]',
      'nodes/status [patch]',
      'pods [get list watch]',
      'profiles.netplug.io [list watch]',
      'serviceaccounts [list watch]',
      'workloadendpoints.netplug.io [create delete get list update watch]',
    ]);
  });

  it('cause an error that says what to apply when they are not installed', async () => {
    await server.kubectl('delete', 'crd', 'ippools.netplug.io');
    await expect(store.listResources('IPPool', never)).rejects.toMatchObject({
      code: 'store/unavailable',
      message: expect.stringMatching(/it knows nothing of that kind.*404 page not found/) as string,
      hint: expect.stringContaining('Apply manifests/crds.yaml') as string,
    });
  });
});
