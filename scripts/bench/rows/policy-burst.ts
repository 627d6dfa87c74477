// Bursts of ADDs on a node with many policies, beside nodes with none and with enforcement off. All candidates of the row `burst` are
// compared with `ptp` by their rates, so that a rate beside another one says as much.
import type { TestNetns } from '../../../test/support/netns.ts';
import { inTurn } from '../attach-rounds.ts';
import { type Figure, type MeasureRow, ratio } from '../report.ts';
import { namespaceName } from '../remote-pods.ts';
import { quantile } from '../statistics.ts';
import { openPolicyWays, type PolicyWay } from './policy-add.ts';

/** Pods that start at once. */
const BURSTS = [16, 64];
const ROUNDS = 5;

export const measurePolicyBurst: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const ways = await openPolicyWays(scope);
  const pods = new Map<PolicyWay['name'], TestNetns[]>();
  for (const { name, node } of ways)
    pods.set(name, await Promise.all(Array.from({ length: Math.max(...BURSTS) }, async () => node.pod())));
  const rates = new Map<string, number[]>();
  for (const size of BURSTS) {
    // The first round of each is warm-up.
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const way of inTurn(ways, round)) {
        const perSecond = await burst(way, { pods: pods.get(way.name)?.slice(0, size) ?? [], round });
        const key = keyOf(way.name, size);
        if (round > 0) rates.set(key, [...(rates.get(key) ?? []), perSecond]);
      }
    }
  }
  const rateOf = (name: PolicyWay['name'], size: number): number => quantile(rates.get(keyOf(name, size)) ?? [], 0.5);
  return {
    figures: BURSTS.flatMap((size): Figure[] => {
      const what = `${String(size)} ADDs at once`;
      return [
        ...ways.map(({ name, what: ofWay }) => ({
          id: `policy.burst.${String(size)}.rate.${name}`,
          what: `${what}, ${ofWay}`,
          value: rateOf(name, size),
          unit: '/s',
        })),
        ...(['none', 'many'] as const).flatMap((name) =>
          ratio(
            {
              id: `policy.burst.${String(size)}.${name}`,
              what: `${what}, rate with ${name === 'many' ? 'many' : 'no'} policies / policies off`,
            },
            rateOf(name, size),
            rateOf('off', size),
          ),
        ),
      ];
    }),
  };
};

function keyOf(name: PolicyWay['name'], size: number): string {
  return `${name} ${String(size)}`;
}

/** The pods are of one namespace, such as those of one Deployment. Returns how many started in a second. */
async function burst(
  { caller: { launcher, job }, agent }: PolicyWay,
  { pods, round }: { readonly pods: readonly TestNetns[]; readonly round: number },
): Promise<number> {
  const jobs = (verb: 'ADD' | 'DEL'): ReturnType<typeof job>[] =>
    pods.map(({ path: netns }, index) => {
      const name = `burst-${String(round)}-${String(index)}`;
      const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespaceName(0)};K8S_POD_NAME=${name}`;
      return job(verb, { id: name, netns, args });
    });
  let perSecond = 0;
  for (const verb of ['ADD', 'DEL'] as const) {
    const { runs, ms } = await launcher.run(jobs(verb), { atOnce: pods.length });
    const failed = runs.find(({ status }) => status !== 0);
    if (failed !== undefined) throw new Error(`a call failed: ${failed.stdout}\n${agent.log()}`);
    if (verb === 'ADD') perSecond = (1000 * pods.length) / ms;
  }
  await agent.settled();
  return perSecond;
}
