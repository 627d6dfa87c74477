// A thousand nodes that claim their first blocks of one pool at the same moment, and how naive ones fare.
import { systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { systemRandom } from '../../../src/base/random.ts';
import type { Change, Outcome } from '../../../src/datastore/allocation-store.ts';
import type { Store } from '../../../src/datastore/store.ts';
import { assign } from '../../../src/ipam/assign.ts';
import { emptyBlock } from '../../../src/model/ip-block.ts';
import { addressAt, cidrAround, cidrSize, formatCidr, parseCidr } from '../../../src/net/cidr.ts';
import { type Etcd, startEtcd } from '../../../test/support/etcd.ts';
import { nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { requestOf } from '../../../test/support/ipam-bench.ts';
import { openStoreOn } from '../inside.ts';
import type { MeasureRow } from '../report.ts';

const NODES = 1000;
/** Each of the naive ones meets all the others, which is too slow for more. */
const NAIVE_NODES = 100;
const POOL = poolOf('first', '10.128.0.0/12');
const DEADLINE_MS = 120_000;

export const measureFirstBlocks: MeasureRow = async () => {
  await using etcd = await startEtcd();
  const own = await countClaims(etcd, { prefix: '/own/', nodes: NODES, claim: claimAsNetplug });
  const naive = await countClaims(etcd, { prefix: '/naive/', nodes: NAIVE_NODES, claim: claimNaively });
  const what = (nodes: number): string => `first blocks of ${String(nodes)} nodes`;
  return {
    figures: [
      { id: 'first-blocks.conflicts', what: `${what(NODES)}, conflicts per claim`, value: own.conflicts, unit: '' },
      { id: 'first-blocks.writes', what: `${what(NODES)}, writes per new block`, value: own.writes, unit: '' },
      { id: 'first-blocks.rate', what: what(NODES), value: own.perSecond, unit: '/s' },
      {
        id: 'first-blocks.conflicts.naive',
        what: `${what(NAIVE_NODES)}, naive, conflicts per claim`,
        value: naive.conflicts,
        unit: '',
      },
      { id: 'first-blocks.rate.naive', what: `${what(NAIVE_NODES)}, naive`, value: naive.perSecond, unit: '/s' },
    ],
  };
};

type Claim = (store: Store, node: string, signal: AbortSignal) => Promise<void>;

/** Conflicts and writes for each of the nodes. */
async function countClaims(
  etcd: Etcd,
  { prefix, nodes, claim }: { prefix: string; nodes: number; claim: Claim },
): Promise<{ conflicts: number; writes: number; perSecond: number }> {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  await using store = openStoreOn(etcd.url, { prefix });
  await store.createResource(POOL, signal);
  const outcomes: Outcome[] = [];
  const counting = countingCommits(store, outcomes);
  const startMs = performance.now();
  await Promise.all(
    Array.from({ length: nodes }, async (_, index) => claim(counting, `node-${String(index)}`, signal)),
  );
  const ms = performance.now() - startMs;
  const { blocks } = await store.listBlocks(signal);
  const owners = new Set(blocks.map(({ value }) => value.node));
  if (owners.size !== nodes) throw new Error(`${String(owners.size)} of ${String(nodes)} nodes have a block`);
  const conflicts = outcomes.filter((outcome) => outcome === 'conflict').length;
  return { conflicts: conflicts / nodes, writes: outcomes.length / nodes, perSecond: (1000 * nodes) / ms };
}

async function claimAsNetplug(store: Store, node: string, signal: AbortSignal): Promise<void> {
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  await assign(ports, requestOf(`pod-on-${node}`, { node }), { signal, cleanupSignal: signal });
}

async function claimNaively(store: Store, node: string, signal: AbortSignal): Promise<void> {
  const whole = parseCidr(POOL.spec.cidr);
  for (let isClaimed = false; !isClaimed;) {
    const { pools } = await store.readNodeView(nodeName(node), undefined, signal);
    const claims = await store.listClaims([whole], signal);
    const claimed = new Set(claims.map(({ cidr }) => formatCidr(cidr)));
    const size = Number(cidrSize(cidrAround(whole.base, POOL.spec.blockSize)));
    let ordinal = 0;
    const candidate = (): ReturnType<typeof cidrAround> => cidrAround(addressAt(whole, ordinal), POOL.spec.blockSize);
    while (claimed.has(formatCidr(candidate()))) ordinal += size;
    const block = emptyBlock(candidate(), nodeName(node));
    isClaimed = (await store.commit([{ kind: 'create-block', block, pool: pools[0]! }], signal)) === 'committed';
  }
}

/** The store, with the outcome of every commit noted down. */
function countingCommits(store: Store, outcomes: Outcome[]): Store {
  const commit = async (changes: readonly Change[], signal: AbortSignal): Promise<Outcome> => {
    const outcome = await store.commit(changes, signal);
    outcomes.push(outcome);
    return outcome;
  };
  return new Proxy(store, {
    get: (target, name: keyof Store): unknown => {
      if (name === 'commit') return commit;
      const member: unknown = target[name];
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}
