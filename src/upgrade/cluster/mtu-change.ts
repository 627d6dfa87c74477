import { conflistPlugins } from './conflist-plugins.ts';
import type { ClusterSnapshot } from './snapshot.ts';
import { objectsOf, type UpgradeTarget } from './target.ts';

/** MTU of pods in bytes before and after; undefined where agents derive it from uplinks and tunnels. */
export interface MtuChange {
  readonly from: number | undefined;
  readonly to: number | undefined;
}

/** Returns how the upgrade changes the MTU that the conflist sets for pods; undefined when it does not. Pure. */
export function mtuChange({ objects }: Pick<ClusterSnapshot, 'objects'>, target: UpgradeTarget): MtuChange | undefined {
  const [[before], [after]] = [conflistPlugins(objects), conflistPlugins(objectsOf(target))];
  if (before === undefined || after === undefined) return undefined;
  const [from, to] = [mtuIn(before), mtuIn(after)];
  return from === to ? undefined : { from, to };
}

/** Returns the change as a sentence. Pure. */
export function mtuChangeText({ from, to }: MtuChange): string {
  const textOf = (mtu: number | undefined): string =>
    mtu === undefined ? 'what each agent derives from uplinks and tunnels' : `${String(mtu)} bytes`;
  const verb = from !== undefined && to !== undefined ? (to < from ? 'lowers' : 'raises') : 'changes';
  return `the upgrade ${verb} the MTU of pods from ${textOf(from)} to ${textOf(to)}; pods that run keep theirs until they are replaced`;
}

function mtuIn({ mtu }: Readonly<Record<string, unknown>>): number | undefined {
  return typeof mtu === 'number' ? mtu : undefined;
}
