import type { Manifest } from '../../model/manifest.ts';
import { agentContainerIn, variableIn } from './objects-in.ts';

/** Reports whether the agents among the objects use the servers of the fan-out. */
export function usesFanOut(objects: readonly Manifest[]): boolean {
  return variableIn(agentContainerIn(objects), 'NETPLUG_TYPHA') === 'on';
}
