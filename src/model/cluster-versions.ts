import { isNewerVersion } from '../base/compare-versions.ts';
import type { Node } from './node.ts';

/** Version of agents that publish none: those of releases before v3.27.0, and those without networking. */
export const UNKNOWN_VERSION = 'unknown';
/** Maximum number of nodes that are named in one sentence. */
const NAMED = 5;

/** The releases that run in the cluster. */
export interface ClusterVersions {
  /** The newest; undefined when none is known. */
  readonly newest: string | undefined;
  /** Names of nodes by the release of their agent. */
  readonly agents: ReadonlyMap<string, readonly string[]>;
  /** A sentence for each release of agents that is not the newest. */
  readonly skews: readonly string[];
}

/** Returns the releases of the agents of the nodes. `known` is another release that has run in the cluster. */
export function clusterVersions(nodes: readonly Node[], known: string | undefined): ClusterVersions {
  const published = nodes.map(({ metadata, spec }) => ({
    name: metadata.name,
    version: spec.netplugVersion ?? UNKNOWN_VERSION,
  }));
  const agents = new Map(
    [...Map.groupBy(published, ({ version }) => version)].map(([version, all]) => [
      version,
      all.map(({ name }) => name).toSorted(),
    ]),
  );
  const isVersion = (text: string): boolean => isNewerVersion(text, '0');
  const [newest] = [known ?? '', ...agents.keys()]
    .filter(isVersion)
    .toSorted((a, b) => (isNewerVersion(a, b) ? -1 : 1));
  const older = [...agents.keys()].filter((version) => newest !== undefined && isNewerVersion(newest, version));
  const skews = older
    .toSorted((a, b) => (isNewerVersion(a, b) ? 1 : -1))
    .map(
      (version) =>
        `${agentsText(agents.get(version) ?? [])} of release ${version}, and ${newest ?? ''} runs in the cluster`,
    );
  return { newest, agents, skews };
}

function agentsText(nodes: readonly string[]): string {
  const more = nodes.length - NAMED;
  const listed = `${nodes.slice(0, NAMED).join(', ')}${more > 0 ? ` and ${String(more)} more` : ''}`;
  return `${nodes.length === 1 ? 'the agent of node' : 'the agents of nodes'} ${listed} ${nodes.length === 1 ? 'is' : 'are'}`;
}
