import { type ChainedContainer, portMarksOf, shaperOf } from '../../dataplane/chained-state.ts';
import type { HostPorts } from './host-ports.ts';
import { eachOf } from './network-parts.ts';
import type { Part } from './part.ts';

/**
 * Returns what the standard plugins keep for the containers of netplug: rules for host ports, and devices that limit bandwidth.
 * Their own DEL comes first, since it knows all back ends; this is for a DEL that failed, and for containers that no runtime knows.
 */
export function chainedParts(
  { openChained }: Pick<HostPorts, 'openChained'>,
  containers: readonly ChainedContainer[],
): readonly Part[] {
  if (containers.length === 0) return [];
  const chained = openChained();
  const subjectOf = ({ containerId }: ChainedContainer): string => `container ${containerId}`;
  return [
    {
      kind: 'host port',
      find: async (signal) => {
        const marks = new Set((await chained.listPortRules(signal)).map(({ mark }) => mark));
        const isLeft = (container: ChainedContainer): boolean =>
          Object.values(portMarksOf(container)).some((mark) => marks.has(mark));
        return [...new Set(containers.filter(isLeft).map(subjectOf))];
      },
      remove: async (subjects, signal) =>
        eachOf(subjects, async (subject) => {
          for (const container of containers)
            if (subjectOf(container) === subject) await chained.removePortRules(container, signal);
        }),
    },
    {
      kind: 'interface',
      find: async () => chained.findShapers([...new Set(containers.map(shaperOf))]),
      remove: async (subjects) => eachOf(subjects, async (name) => chained.removeShaper(name)),
    },
  ];
}
