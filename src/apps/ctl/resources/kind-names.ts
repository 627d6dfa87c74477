import { NetplugError } from '../../../base/errors.ts';
import { didYouMean, nearMiss } from '../../../base/near-miss.ts';
import { type Column, type KindInfo } from '../../../model/kind-info.ts';
import { type AnyResource, findKind, KIND_NAMES, KINDS, type ResourceKind } from '../../../model/kinds.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';

/** Kinds that can be shown. Only netplug writes endpoints. */
export type VisibleKind = ResourceKind | 'WorkloadEndpoint';
export type VisibleResource = AnyResource | WorkloadEndpoint;

export const ENDPOINT_INFO: KindInfo<WorkloadEndpoint> = {
  plural: 'workloadendpoints',
  shortNames: ['wep', 'weps', 'endpoint', 'endpoints'],
  scope: 'namespace',
  columns: [
    column('NAMESPACE', ({ metadata }) => metadata.namespace ?? 'default'),
    column('WORKLOAD', ({ spec }) => spec.pod ?? spec.containerID),
    column('NODE', ({ spec }) => spec.node),
    column('NETWORKS', ({ spec }) => spec.ipNetworks.join(',')),
    column('INTERFACE', ({ spec }) => spec.interfaceName),
    { ...column('NAME', ({ metadata }) => metadata.name), isWide: true },
    { ...column('PROFILES', ({ spec }) => spec.profiles.join(',')), isWide: true },
  ],
};

export const VISIBLE_KINDS: readonly VisibleKind[] = [...KIND_NAMES, 'WorkloadEndpoint'];

export function infoOf(kind: VisibleKind): KindInfo<VisibleResource> {
  const info = kind === 'WorkloadEndpoint' ? ENDPOINT_INFO : KINDS[kind];
  // Only resources of the kind are ever shown by its columns; the compiler does not connect the two.
  return info as unknown as KindInfo<VisibleResource>;
}

/** A line about what this release does not do with resources of the kind; nothing when it does all. */
export function enforcementNote(kind: VisibleKind): string {
  const enforced = kind === 'WorkloadEndpoint' || KINDS[kind].enforced;
  if (enforced === true) return '';
  return `note: ${enforced === false ? `${kind} is stored and checked; this release does not act on it yet` : `${kind}: ${enforced}`}\n`;
}

/** Decodes one kind, several separated by commas, or `all`. @throws cli/usage */
export function visibleKinds(words: string): readonly VisibleKind[] {
  if (words.toLowerCase() === 'all') return VISIBLE_KINDS;
  return [...new Set(words.split(',').map(visibleKind))];
}

/** Decodes a kind: singular, plural or short name, in any letter case. @throws cli/usage */
export function visibleKind(word: string): VisibleKind {
  const kind = findKind(word);
  if (kind !== undefined) return kind;
  const lower = word.toLowerCase();
  if (['workloadendpoint', ENDPOINT_INFO.plural, ...ENDPOINT_INFO.shortNames].includes(lower))
    return 'WorkloadEndpoint';
  const all = VISIBLE_KINDS.map(infoOf);
  const words = [...VISIBLE_KINDS, ...all.flatMap(({ plural, shortNames }) => [plural, ...shortNames])];
  const meant = nearMiss(word, words);
  const plurals = all.map(({ plural }) => plural).join(', ');
  throw new NetplugError('cli/usage', `Cannot use kind "${word}": the kinds are ${plurals}`, {
    hint: meant === undefined ? 'Blocks are shown by "netplugctl ipam show --blocks"' : didYouMean(meant),
  });
}

/** Refuses a kind that users must not write. @throws cli/usage */
export function writableKind(kind: VisibleKind): ResourceKind {
  if (kind !== 'WorkloadEndpoint') return kind;
  throw new NetplugError('cli/usage', 'Cannot change a WorkloadEndpoint: netplug itself writes them', {
    hint: 'Delete the pod instead, or let "netplugctl ipam check --fix" clear up what was left behind',
  });
}

function column(title: string, show: (endpoint: WorkloadEndpoint) => string): Column<WorkloadEndpoint> {
  return { title, isWide: false, path: undefined, show };
}
