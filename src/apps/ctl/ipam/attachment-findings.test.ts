import { takeSlot } from '../../../../test/support/block-edits.ts';
import { describe, expect, it } from 'vitest';
import { poolOf } from '../../../../test/support/fixtures.ts';
import type { HostLink } from '../../../dataplane/kernel.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../../model/ip-block.ts';
import { handleOf, type NodeName } from '../../../model/names.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { checkIpam, confirmed } from './check-ipam.ts';
import type { IpamState } from './finding.ts';

const NONE = { networks: [], leaked: [], reserved: new Set<string>() };

const node = 'node-a' as NodeName;
const other = 'node-b' as NodeName;
const NOW = Date.parse('2026-01-02T00:00:00Z');

const allocation = (containerId: string, more: Partial<Allocation> = {}): Allocation => {
  const attachment = { network: 'net', containerId, ifName: 'eth0' };
  return {
    id: `id-${containerId}`,
    handle: handleOf(attachment),
    node,
    ...attachment,
    at: '2026-01-01T00:00:00Z',
    chosenBy: 'request',
    ...more,
  };
};
const block = (cidr: string, ...held: Allocation[]): IpBlock =>
  held.reduce((all, each, ordinal) => takeSlot(all, ordinal, each), emptyBlock(parseCidr(cidr), node));
const endpoint = (
  containerID: string,
  address: string,
  on: NodeName = node,
): { value: WorkloadEndpoint; version: string } => ({
  version: '1',
  value: {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: `e-${containerID}`, namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node: on,
      network: 'net',
      containerID,
      endpoint: 'eth0',
      interfaceName: `npl${containerID}`,
      mac: '0a:00:00:00:00:01',
      ipNetworks: [`${address}/32`],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  },
});
const link = (containerId: string): HostLink => ({
  name: `npl${containerId}`,
  index: 7,
  mac: 'ee:ee:ee:ee:ee:ee',
  mtu: 1500,
  isUp: true,
  addresses: [],
  owner: { containerId, ifName: 'eth0', network: 'net' },
});
const pool = poolOf('blue', '10.0.0.0/16', { allowedUses: ['Workload'] });
const state = (more: Partial<IpamState>): IpamState => ({
  blocks: [],
  endpoints: [],
  pools: [pool],
  nodes: [],
  unreadable: [],
  local: undefined,
  nowMs: NOW,
  graceMs: 120_000,
  ...more,
});
const HERE = {
  nodes: new Set([node]),
  links: [],
  attached: new Set<string>(),
  used: new Set<string>(),
  unconnected: [],
  running: [],
  delegated: NONE,
};
const local = (...links: HostLink[]): IpamState['local'] => ({
  ...HERE,
  links,
});
const kinds = (more: Partial<IpamState>): string[] =>
  checkIpam(state(more)).map(
    ({ id, subject, repair }) =>
      `${id.replace('ipam/', '')} ${subject}${repair === undefined ? '' : ` ${repair.kind}`}`,
  );

describe('a check of addresses', () => {
  const blocks = [block('10.0.0.0/26', allocation('a'), allocation('b'))];
  const both = [endpoint('a', '10.0.0.0'), endpoint('b', '10.0.0.1')];

  it('is content when blocks, endpoints and interfaces agree', () => {
    expect(kinds({ blocks, endpoints: both })).toEqual([]);
    expect(kinds({ blocks, endpoints: both, local: local(link('a'), link('b')) })).toEqual([]);
  });

  it('finds the address of a network of netplug that has no endpoint', () => {
    expect(kinds({ blocks, endpoints: both.slice(0, 1) })).toEqual(['leaked-address 10.0.0.1 release']);
  });

  it('does not judge networks in which it never saw an endpoint', () => {
    expect(kinds({ blocks })).toEqual(['unconfirmed-address 10.0.0.0 release', 'unconfirmed-address 10.0.0.1 release']);
  });

  it('believes the kernel of this node about its own addresses alone', () => {
    const elsewhere = [block('10.0.0.0/26', allocation('a'), allocation('b', { node: other }))];
    const endpoints = [endpoint('a', '10.0.0.0'), endpoint('b', '10.0.0.1', other)];
    expect(kinds({ blocks: elsewhere, endpoints, local: local() })).toEqual(['leaked-address 10.0.0.0 release']);
    const found = checkIpam(state({ blocks: elsewhere, endpoints, local: local() }));
    expect(found[0]?.repair).toMatchObject({ kind: 'release', endpoint: { metadata: { name: 'e-a' } } });
  });

  it('leaves alone what an interface uses, though the endpoint is gone', () => {
    const found = kinds({ blocks, endpoints: both.slice(0, 1), local: local(link('a'), link('b')) });
    expect(found).toEqual(['endpoint-missing 10.0.0.1']);
  });

  it('passes over addresses so young that their ADD may be under way', () => {
    const young = [block('10.0.0.0/26', allocation('a', { at: '2026-01-01T23:59:00Z' }))];
    expect(kinds({ blocks: young, endpoints: both.slice(0, 1), local: local() })).toEqual(
      ['endpoint-without-address shop/e-b'].slice(1),
    );
  });

  it('distinguishes containers of one id on two nodes', () => {
    const twins = [block('10.0.0.0/26', allocation('a'), allocation('a', { id: 'twin', node: other }))];
    const [here, there] = [endpoint('a', '10.0.0.0'), endpoint('a', '10.0.0.1', other)];
    expect(kinds({ blocks: twins, endpoints: [here, there] })).toEqual([]);
    const gone = [here, endpoint('b', '10.0.0.1', other)];
    expect(kinds({ blocks: twins, endpoints: gone })).toContain('leaked-address 10.0.0.1 release');
  });

  it('finds a second address of one attachment', () => {
    const twice = [block('10.0.0.0/26', allocation('a'), allocation('a', { id: 'second' }))];
    expect(kinds({ blocks: twice, endpoints: both.slice(0, 1) })).toEqual(['leaked-address 10.0.0.1 release']);
  });

  it('leaves an interface alone whose address is in the journal of the agent only', () => {
    const pending = { ...HERE, links: [link('z')], attached: new Set(['z/eth0']) };
    expect(kinds({ local: pending })).toEqual([]);
    const stray = {
      blocks,
      endpoints: both,
      local: { ...pending, links: [link('a'), link('b'), link('z')], attached: new Set(['z/eth1']) },
    };
    expect(kinds(stray)).toEqual(['stray-link nplz remove-link']);
  });

  it('does not remove an interface whose records may be in another datastore, or cannot be read', () => {
    const links = { local: local(link('a'), link('b'), link('z')) };
    expect(kinds(links)).toEqual(['stray-link npla', 'stray-link nplb', 'stray-link nplz']);
    expect(kinds({ ...links, blocks, endpoints: both, unreadable: ['block 10.1.0.0/26'] })).toContain(
      'stray-link nplz',
    );
  });

  it('finds endpoints and interfaces that hold nothing', () => {
    expect(kinds({ endpoints: both.slice(0, 1) })).toEqual(['endpoint-without-address shop/e-a']);
    expect(kinds({ endpoints: both.slice(0, 1), local: local(link('z')) })).toEqual([
      'endpoint-without-address shop/e-a delete-endpoint',
      'stray-link nplz remove-link',
    ]);
  });

  describe('where endpoints are notes that the owner of a pod may change', () => {
    const ofPod = (container: string, pod: string): Allocation =>
      allocation(container, { namespace: 'shop', pod, podUid: `uid-${pod}` });
    const note = (container: string, address: string, pod: string): { value: WorkloadEndpoint; version: string } => {
      const { value, version } = endpoint(container, address);
      return { value: { ...value, spec: { ...value.spec, pod } }, version };
    };
    const held = [block('10.0.0.0/26', ofPod('a', 'victim'), ofPod('b', 'web'))];
    const notes = [note('a', '10.0.0.0', 'victim'), note('b', '10.0.0.1', 'web')];
    const pods = new Map([
      ['shop/victim', 'uid-victim'],
      ['shop/web', 'uid-web'],
      ['shop/thief', 'uid-thief'],
    ]);

    it('believes no pod about the container of another', () => {
      const forged = [...notes, note('a', '10.9.9.9', 'thief')];
      expect(kinds({ blocks: held, endpoints: forged, pods })).toEqual(['endpoint-without-address shop/e-a']);
    });

    it('frees no address of a pod that exists, whatever its note says', () => {
      const [, web] = notes;
      const other = note('a', '10.9.9.9', 'victim');
      expect(kinds({ blocks: held, endpoints: [web!], pods })).toEqual(['endpoint-missing 10.0.0.0']);
      expect(kinds({ blocks: held, endpoints: [other, web!], pods })).toEqual([
        'endpoint-missing 10.0.0.0',
        'endpoint-without-address shop/e-a',
      ]);
      expect(kinds({ blocks: held, endpoints: notes, pods, local: local() })).toEqual([
        'endpoint-missing 10.0.0.0',
        'endpoint-missing 10.0.0.1',
      ]);
    });

    it('frees no address of a static pod that the API does not know, unless this node shows that it is gone', () => {
      const uid = '0123456789abcdef0123456789abcdef';
      const fixed = allocation('a', { namespace: 'shop', pod: 'victim', podUid: uid });
      const blocks = [block('10.0.0.0/26', fixed, ofPod('b', 'web'))];
      const [, web] = notes;
      const known = new Map([...pods].filter(([name]) => name !== 'shop/victim'));
      const scene = { blocks, endpoints: [web!], pods: known };
      expect(kinds(scene)).toEqual(['endpoint-missing 10.0.0.0']);
      expect(kinds({ ...scene, local: local(link('b')) })).toEqual(['leaked-address 10.0.0.0 release']);
    });

    it('frees addresses of pods that are deleted, recreated, or without the link that others of the network have', () => {
      const [, web] = notes;
      const gone = new Map([...pods].filter(([name]) => name !== 'shop/victim'));
      expect(kinds({ blocks: held, endpoints: [web!], pods: gone })).toEqual(['leaked-address 10.0.0.0 release']);
      const mirrored = new Map([...pods, ['shop/victim', undefined] as const]);
      expect(kinds({ blocks: held, endpoints: [web!], pods: mirrored })).toEqual(['endpoint-missing 10.0.0.0']);
      const anew = new Map([...pods, ['shop/victim', 'uid-next'] as const]);
      expect(kinds({ blocks: held, endpoints: [web!], pods: anew })).toEqual(['leaked-address 10.0.0.0 release']);
      expect(kinds({ blocks: held, endpoints: [web!], pods, local: local(link('b')) })).toEqual([
        'leaked-address 10.0.0.0 release',
      ]);
    });
  });

  it('drops what a second look no longer shows', () => {
    const first = checkIpam(state({ blocks, endpoints: both.slice(0, 1) }));
    expect(confirmed(first, first)).toEqual(first);
    expect(confirmed(first, [])).toEqual([]);
  });
});

describe('a check of blocks', () => {
  it('finds blocks that overlap, lie outside or are of another size', () => {
    const blocks = [
      block('10.0.0.0/26', allocation('a')),
      block('10.0.0.0/28', allocation('b')),
      block('10.9.0.0/26'),
      block('192.0.2.0/26'),
    ];
    const found = kinds({
      blocks: blocks.slice(0, 2),
      endpoints: [endpoint('a', '10.0.0.0'), endpoint('b', '10.0.0.0')],
    });
    expect(found).toEqual(['block-size 10.0.0.0/28', 'overlapping-blocks 10.0.0.0/28', 'address-held-twice 10.0.0.0']);
    expect(kinds({ blocks: blocks.slice(3) })).toEqual(['block-outside-pools 192.0.2.0/26']);
  });

  it('finds faults inside a block', () => {
    const broken = { ...block('10.0.0.0/26'), queue: [1, 1] };
    expect(kinds({ blocks: [broken] })).toEqual(['block-fault 10.0.0.0/26', 'block-fault 10.0.0.0/26']);
  });
});
