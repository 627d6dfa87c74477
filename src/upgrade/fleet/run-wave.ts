import type { ClusterOutcome } from './fleet.ts';

/**
 * Upgrades clusters, several at once. After the first failure no further cluster is begun. Those under way are carried to their
 * end: each is protected by its own canary, and a stopped roll-out would leave it with two releases. `upgrade` does not reject.
 */
export async function runWave(
  names: readonly string[],
  { atOnce }: { readonly atOnce: number },
  upgrade: (name: string) => Promise<ClusterOutcome>,
): Promise<ReadonlyMap<string, ClusterOutcome>> {
  const outcomes = new Map<string, ClusterOutcome>(names.map((name) => [name, { kind: 'not-begun' }]));
  const waiting = [...names];
  let mayBegin = true;
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); mayBegin && name !== undefined; name = waiting.shift()) {
      const outcome = await upgrade(name);
      outcomes.set(name, outcome);
      if (outcome.kind !== 'upgraded') mayBegin = false;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, names.length) }, work));
  return outcomes;
}
