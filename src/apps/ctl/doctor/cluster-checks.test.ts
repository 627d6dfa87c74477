import { takeSlot } from '../../../../test/support/block-edits.ts';
import { describe, expect, it } from 'vitest';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { nodeName, nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { overlapStatus } from '../../../model/ip-pool-status.ts';
import { NetplugError } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import type { DatastoreReport } from '../../../datastore/inspector.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../../model/ip-block.ts';
import { handleOf } from '../../../model/names.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { ADDRESS_CHECKS, addressFacts } from './address-checks.ts';
import { CONTROLLER_CHECKS, type ControllerFacts } from './controller-checks.ts';
import { CREDENTIAL_CHECKS } from './credential-checks.ts';
import type { ShownCredential, CredentialFacts } from './credential-facts.ts';
import { DATASTORE_CHECKS } from './datastore-checks.ts';
import type { DatastoreFacts } from './datastore-facts.ts';
import { POOL_CHECKS } from './pool-checks.ts';
import type { Records } from './records.ts';
import { judgeAll } from '../../../checks/check.ts';
import { VERSION_CHECKS, type VersionFacts } from './version-checks.ts';

const REPORT: DatastoreReport = {
  server: 'etcd 3.4.23',
  sizeBytes: 100,
  quotaBytes: 1000,
  alarms: [],
  missingKinds: [],
  unpublishedNodes: [],
  differingKinds: [],
  missingRights: [],
};
const DATASTORE: DatastoreFacts = {
  type: 'kvv3',
  from: 'the environment',
  failure: undefined,
  latencyMs: 1,
  report: REPORT,
  inspectError: undefined,
  skewMs: -1200,
  listError: undefined,
  unreadable: [],
};
const report = (more: Partial<DatastoreReport>): Partial<DatastoreFacts> => ({ report: { ...REPORT, ...more } });

describe('doctor checks of the controllers', () => {
  const facts: ControllerFacts = {
    type: 'kvv3',
    leader: 'one',
    clusterProblem: undefined,
    namespaces: ['shop'],
    withoutProfile: [],
  };
  expectEachCheck(CONTROLLER_CHECKS, facts, {
    'not-running': { leader: undefined },
    'cluster-unknown': { clusterProblem: 'ClusterInformation "default" cannot be understood' },
    'profile-missing': { withoutProfile: ['shop'] },
  });

  it('need no controllers where no pod needs their records', () => {
    expect(judgeAll(CONTROLLER_CHECKS, { ...facts, leader: undefined, namespaces: [] })).toEqual([]);
  });
});

describe('doctor checks of the datastore', () => {
  expectEachCheck(DATASTORE_CHECKS, DATASTORE, {
    unusable: { failure: new NetplugError('store/unavailable', 'Cannot use it'), report: undefined },
    alarm: report({ alarms: ['NOSPACE'] }),
    'nearly-full': report({ sizeBytes: 800 }),
    'clock-skew': { skewMs: -5001 },
    'kind-missing': report({ missingKinds: ['IPPool'] }),
    'kind-differs': report({ differingKinds: ['IPPool'] }),
    'node-unpublished': report({ unpublishedNodes: [{ node: 'node-a', fault: 'it has no NetplugNode' }] }),
    'right-missing': report({ missingRights: [{ role: 'netplug-admin', rights: ['get pods'] }] }),
    unlisted: { listError: 'nodes is forbidden' },
    unreadable: { unreadable: ['IPPool "x" cannot be understood'] },
    uninspected: { report: undefined, inspectError: 'no answer' },
  });
});

const DAY = 86_400_000;
const NOW = Date.parse('2026-01-01T00:00:00Z');
const year: ShownCredential = { what: 'certificate', validFromMs: NOW - 100 * DAY, validToMs: NOW + 265 * DAY };
const CREDENTIALS: CredentialFacts = { nowMs: NOW, credentials: [year], unusable: [] };
const credential = (more: Partial<ShownCredential>): Partial<CredentialFacts> => ({
  credentials: [{ ...year, ...more }],
});

describe('doctor checks of credentials', () => {
  expectEachCheck(CREDENTIAL_CHECKS, CREDENTIALS, {
    unusable: { unusable: ['ENOENT'] },
    expired: credential({ validToMs: NOW }),
    'expire-soon': credential({ validToMs: NOW + 29 * DAY }),
    'not-yet-valid': credential({ validFromMs: NOW + 1 }),
    unbound: credential({ isUnbound: true }),
    'wrong-key': credential({ isKeyOfAnother: true }),
  });

  it.each<[string, Partial<ShownCredential>, number]>([
    [
      'accepts a certificate issued for two days with one day left',
      { validFromMs: NOW - DAY, validToMs: NOW + DAY },
      0,
    ],
    [
      'reports a certificate issued for three days in its last third',
      { validFromMs: NOW - 2.5 * DAY, validToMs: NOW + DAY / 2 },
      1,
    ],
    ['reports a token near its expiry that is not renewed', { validFromMs: undefined, validToMs: NOW + DAY }, 1],
    [
      'accepts a token near its expiry that is renewed',
      { validFromMs: undefined, validToMs: NOW + 1000, renewedBy: 'kubelet' },
      0,
    ],
    ['reports an expired token that should have been renewed', { validToMs: NOW - 1, renewedBy: 'kubelet' }, 1],
    ['accepts a token with two hours left that the agent renews', { validToMs: NOW + DAY / 12, renewedBy: 'agent' }, 0],
    [
      'reports a token with half an hour left that the agent renews',
      { validToMs: NOW + DAY / 48, renewedBy: 'agent' },
      1,
    ],
    ['accepts a credential without an expiry', { validToMs: undefined }, 0],
  ])('%s', (_, more, count) => {
    const facts = { ...CREDENTIALS, credentials: [{ ...year, ...more }] };
    expect(judgeAll(CREDENTIAL_CHECKS, facts)).toHaveLength(count);
  });
});

const allocation = (id: string): Allocation => {
  const attachment = { network: 'net', containerId: id, ifName: 'eth0' };
  return { id, handle: handleOf(attachment), node: nodeName('n1'), ...attachment, at: '', chosenBy: 'request' };
};
const blockOf = (cidr: string, held = 1): IpBlock => {
  let block = emptyBlock(parseCidr(cidr), nodeName('n1'));
  for (let slot = 0; slot < held; slot += 1) block = takeSlot(block, slot, allocation(String(slot)));
  return block;
};
const blue = poolOf('blue', '10.0.0.0/16');
const v6 = poolOf('v6', 'fd00::/64');
const RECORDS: Records = {
  pools: [blue, v6],
  nodes: [nodeOf('n1', { zone: 'a' })],
  reservations: [],
  blocks: [blockOf('10.0.0.0/26')],
  config: { strictAffinity: false, maxBlocksPerNode: 2, cooldownSeconds: 30 },
  unreadable: [],
};

describe('doctor checks of pools', () => {
  const disabled = poolOf('old', '10.9.0.0/16', { disabled: true });
  expectEachCheck(POOL_CHECKS, RECORDS, {
    none: { pools: [disabled] },
    'node-unserved': {
      facts: { pools: [blue, poolOf('v6', 'fd00::/64', { nodeSelector: 'zone == "b"' })] },
      ids: ['pools/node-unserved', 'pools/selects-none'],
    },
    'selects-none': { pools: [blue, v6, poolOf('b', '10.1.0.0/16', { nodeSelector: 'zone == "b"' })] },
    'disabled-in-use': { pools: [blue, v6, disabled], blocks: [blockOf('10.9.0.0/26')] },
    overlap: { pools: [blue, v6, poolOf('part', '10.0.128.0/17')] },
    'node-inside': { nodes: [{ ...nodeOf('n1'), spec: { bgp: { ipv4Address: '10.0.5.1/24' } } }] },
    unusable: {
      pools: [v6, { ...blue, status: overlapStatus('10.0.7.0/24, a range of Services', '2026-01-01T00:00:00Z') }],
    },
    'no-way-out': { pools: [v6, poolOf('blue', '10.0.0.0/16', { vxlanMode: 'Always' })] },
  });

  it('name a pool in the network of a node, also without the address of a node', () => {
    const nodes = [{ ...nodeOf('n1'), spec: { bgp: { ipv4Address: '192.0.2.1/24' } } }];
    const pools = [...RECORDS.pools, poolOf('lan', '192.0.2.128/25')];
    expect(judgeAll(POOL_CHECKS, { ...RECORDS, pools, nodes }).map(({ id, found }) => [id, found])).toEqual([
      ['pools/node-inside', 'pool "lan" 192.0.2.128/25 overlaps 192.0.2.0/24, the network of node "n1"'],
    ]);
  });

  it('ignore disabled pools without addresses, and clusters without nodes', () => {
    expect(judgeAll(POOL_CHECKS, { ...RECORDS, pools: [...RECORDS.pools, disabled], nodes: [] })).toEqual([]);
  });
});

describe('doctor checks of addresses', () => {
  const facts = (more: Partial<Records>): ReturnType<typeof addressFacts> => addressFacts({ ...RECORDS, ...more });
  const small = (bits: number): Pick<Records, 'pools'> => ({ pools: [poolOf('s', `10.0.0.0/${String(bits)}`)] });
  expectEachCheck(ADDRESS_CHECKS, facts({}), {
    exhausted: {
      facts: facts({ ...small(26), blocks: [blockOf('10.0.0.0/26', 64)] }),
      ids: ['addresses/exhausted', 'addresses/few-blocks-left'],
    },
    'few-left': {
      facts: facts({ ...small(26), blocks: [blockOf('10.0.0.0/26', 58)] }),
      ids: ['addresses/few-left', 'addresses/few-blocks-left'],
    },
    'few-blocks-left': facts(small(26)),
    'node-at-limit': facts({ blocks: [blockOf('10.0.0.0/26'), blockOf('10.0.0.64/26')] }),
  });

  it('have no limit of blocks per node when maxBlocksPerNode is 0', () => {
    const config = { strictAffinity: false, maxBlocksPerNode: 0, cooldownSeconds: 30 };
    expect(judgeAll(ADDRESS_CHECKS, facts({ config }))).toEqual([]);
  });
});

const VERSIONS: VersionFacts = { cluster: VERSION, isLocked: false, skews: [] };

describe('doctor checks of versions', () => {
  expectEachCheck(VERSION_CHECKS, VERSIONS, {
    'older-tool': { cluster: 'v99.0.0' },
    'newer-tool': { cluster: 'v3.14.9' },
    'agents-differ': { skews: ['the agent of node n1 is of release v3.1.0, and v3.27.0 runs in the cluster'] },
    locked: { isLocked: true },
  });
});
