import { VERSION } from '../base/version.ts';
import type { FilterState } from '../mesh/compare-filter.ts';
import type { TemplateState } from '../mesh/compare-template.ts';
import { FILTER_NAME, ROOT_NAMESPACE } from '../mesh/envoy-filter.ts';
import { TEMPLATE_NAME } from '../mesh/injection-template.ts';
import { type Check, type Fault, faultOf } from './check.ts';

/** What a service mesh has of netplug. */
export interface MeshFacts {
  /** Namespaces whose proxies must ask netplug-sidecar. */
  readonly asking: readonly string[];
  readonly injectors: readonly InjectorFacts[];
  /** Filters that ask netplug-sidecar, or have the name of its filter; undefined where the API does not serve the kind. */
  readonly filters: readonly FilterFacts[] | undefined;
  /** Namespaces whose filters apply to all namespaces; none where no control plane was found. */
  readonly roots: readonly string[];
  /** Namespaces in which pods have no proxy of their own. */
  readonly ambient: readonly string[];
}

/** The sidecar injector of one control plane. */
export interface InjectorFacts {
  readonly namespace: string;
  /** Undefined for the default one. */
  readonly revision?: string | undefined;
  /** Name of its ConfigMap. */
  readonly name: string;
  readonly template: TemplateState;
}

export interface FilterFacts {
  readonly namespace: string;
  readonly name: string;
  readonly asks: boolean;
  readonly state: FilterState;
}

/** Undefined where nothing uses netplug-sidecar. */
interface JudgedMesh {
  readonly meshState?: MeshFacts | undefined;
}

/** Checks of a service mesh whose proxies ask netplug-sidecar. */
export const MESH_CHECKS: readonly Check<JudgedMesh>[] = [
  {
    id: 'mesh/template-missing',
    severity: 'warning',
    expected: 'the injection template of netplug-sidecar in every control plane of the mesh',
    // Of a mesh that could not be read this check alone says so: there may be none.
    needs: ['mesh'],
    judge: (facts) =>
      injectorFaults(
        facts,
        'missing',
        () => `has no template "${TEMPLATE_NAME}": the mesh refuses new pods that ask it for one`,
      ),
  },
  {
    id: 'mesh/template-older',
    severity: 'note',
    expected: 'the injection template of the release of the agents',
    judge: (facts) =>
      injectorFaults(facts, 'older', ({ template }) =>
        'release' in template ? `has that of ${template.release}` : '',
      ),
  },
  {
    id: 'mesh/template-newer',
    severity: 'warning',
    expected: 'no injection template of a later release than that of this tool',
    judge: ({ meshState }) =>
      (meshState?.injectors ?? []).flatMap(({ namespace, name, template }): readonly Fault[] =>
        template.kind === 'newer'
          ? [
              {
                found: `ConfigMap ${namespace}/${name} has that of ${template.release}, and this tool is of ${VERSION}`,
                objects: [`ConfigMap ${namespace}/${name}`],
                remedy: `Use netplugctl of ${template.release}, or a later one`,
              },
            ]
          : [],
      ),
  },
  {
    id: 'mesh/template-overwritten',
    severity: 'warning',
    expected: 'the injection template as netplug renders it for this release and this version of the mesh',
    judge: (facts) =>
      injectorFaults(facts, 'other', () => `has a template "${TEMPLATE_NAME}" that is of no other release either`),
  },
  {
    id: 'mesh/template-unreadable',
    severity: 'warning',
    expected: 'a control plane of the mesh whose injection template can be read',
    remedy: 'Correct what the message names',
    judge: ({ meshState }) =>
      (meshState?.injectors ?? []).flatMap(({ namespace, name, template }): readonly Fault[] =>
        template.kind === 'unreadable'
          ? [
              {
                found: `nothing is known of the template: ${template.why}`,
                objects: [`ConfigMap ${namespace}/${name}`],
              },
            ]
          : [],
      ),
  },
  {
    id: 'mesh/filter-missing',
    severity: 'warning',
    expected: 'an EnvoyFilter by which the proxies of these namespaces ask netplug-sidecar',
    judge: ({ meshState }) => {
      if (meshState?.filters === undefined) return [];
      const { asking, filters, roots } = meshState;
      // Without a control plane in the cluster it is not known which filters apply everywhere.
      if (roots.length === 0) return [];
      const asked = filters.filter(({ asks }) => asks).map(({ namespace }) => namespace);
      const isAsked = (namespace: string): boolean => asked.some((each) => each === namespace || roots.includes(each));
      return faultOf(
        asking.filter((each) => !isAsked(each)).map((each) => `Namespace ${each}`),
        'no proxy of these namespaces asks its sidecar, so that rules with http open nothing there',
        filterRemedy(roots[0]),
      );
    },
  },
  {
    id: 'mesh/filter-changed',
    severity: 'warning',
    expected: `an EnvoyFilter "${FILTER_NAME}" as this release makes it`,
    judge: (facts) => filterFaults(facts, 'changed', 'the filter is not that of this release'),
  },
  {
    id: 'mesh/filter-fails-open',
    severity: 'warning',
    expected: 'a filter that refuses requests about which it cannot ask',
    judge: (facts) =>
      filterFaults(
        facts,
        'fails-open',
        'the filter lets requests pass unjudged when it cannot ask, so that rules with http open nothing',
      ),
  },
  {
    id: 'mesh/ambient-namespace',
    severity: 'note',
    expected: 'rules with http for pods with a proxy of their own only',
    remedy:
      'Inject the proxy into pods that need such rules, which ambient mode leaves out then, or write rules without http for them',
    judge: ({ meshState }) =>
      faultOf(
        (meshState?.ambient ?? []).map((each) => `Namespace ${each}`),
        'pods of these namespaces have no proxy of their own unless they were injected, and rules with http open nothing to them',
      ),
  },
];

function injectorFaults(
  { meshState }: JudgedMesh,
  kind: TemplateState['kind'],
  tell: (injector: InjectorFacts) => string,
): readonly Fault[] {
  return (meshState?.injectors ?? [])
    .filter(({ template }) => template.kind === kind)
    .map((injector) => {
      const { namespace, name } = injector;
      const options = placeOptions(injector)
        .map((each) => ` ${each}`)
        .join('');
      return {
        found: `ConfigMap ${namespace}/${name} ${tell(injector)}`,
        objects: [`ConfigMap ${namespace}/${name}`],
        remedy: `When all agents run ${VERSION}, give the installation of the mesh the output of "netplugctl mesh values${options}", or apply that of "netplugctl mesh template${options}", which its next upgrade overwrites`,
      };
    });
}

function filterFaults({ meshState }: JudgedMesh, state: FilterState, found: string): readonly Fault[] {
  return (meshState?.filters ?? [])
    .filter((filter) => filter.state === state)
    .map(({ namespace, name }) => ({
      found,
      objects: [`EnvoyFilter ${namespace}/${name}`],
      remedy: remedyOf({ namespace, name, state }, meshState?.roots ?? []),
    }));
}

/** A filter of that name elsewhere than in a root namespace may be the user's own, which is not overwritten. */
function remedyOf({ namespace, name, state }: Omit<FilterFacts, 'asks'>, roots: readonly string[]): string {
  const [root = ROOT_NAMESPACE] = roots;
  if (name === FILTER_NAME && (namespace === root || roots.includes(namespace))) return filterRemedy(namespace);
  if (state === 'fails-open') return 'Remove failure_mode_allow from it';
  return `Unless ${namespace} is the root namespace of another control plane: give it another name if it is yours, or delete it ("kubectl delete envoyfilter ${name} -n ${namespace}"): the filter of netplug belongs in the root namespace ${root} ("netplugctl mesh objects${placeOption(root)}")`;
}

/** Where no agent runs, each request that is asked about would fail. */
function filterRemedy(namespace: string = ROOT_NAMESPACE): string {
  return `When agents run on all nodes: "netplugctl mesh objects${placeOption(namespace)} | kubectl apply -f -"`;
}

function placeOption(namespace: string): string {
  return placeOptions({ namespace })
    .map((each) => ` ${each}`)
    .join('');
}

/** Returns the options by which commands for a mesh find a control plane. */
export function placeOptions({
  namespace,
  revision,
}: Pick<InjectorFacts, 'namespace' | 'revision'>): readonly string[] {
  return [
    ...(namespace === ROOT_NAMESPACE ? [] : ['--mesh-namespace', namespace]),
    ...(revision === undefined ? [] : ['--revision', revision]),
  ];
}
