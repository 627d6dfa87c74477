import { AGENT_SET } from '../../install/cluster/names.ts';
import type { Manifest } from '../../model/manifest.ts';
import { containersIn, findNamed, variableIn } from './objects-in.ts';

/** Reports whether the agents among the objects use the servers of the fan-out. */
export function usesFanOut(objects: readonly Manifest[]): boolean {
  const [container = {}] = containersIn(findNamed(objects, 'DaemonSet', AGENT_SET) ?? {});
  return variableIn(container, 'NETPLUG_TYPHA') === 'on';
}
