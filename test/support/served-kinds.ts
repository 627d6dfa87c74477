// The kinds that an API server serves, by the names that kubectl knows them by.
import type { ApiRequests } from './api-requests.ts';
import type { Json } from './node.ts';
import { until } from './until.ts';

export interface ServedKind {
  readonly apiVersion: string;
  readonly kind: string;
  /** As in URLs. */
  readonly resource: string;
  readonly isNamespaced: boolean;
  /** Path of the group and version. */
  readonly root: string;
  /** Plural, singular and short names, in lower case. */
  readonly names: ReadonlySet<string>;
  readonly group: string;
  readonly isListed: boolean;
}

const ACCEPT = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
/** The server publishes a new kind a moment after its definition is established. */
const PUBLISHED_MS = 20_000;

/** Returns every kind that the server serves, in the order in which kubectl looks for a name. */
export async function listServedKinds({ ask }: Pick<ApiRequests, 'ask'>): Promise<readonly ServedKind[]> {
  const answers = await Promise.all(['/api', '/apis'].map(async (path) => ask('GET', path, { accept: ACCEPT })));
  return answers.flatMap(({ body }) => kindsIn(body));
}

/** Finds kinds, and asks the server again for those that it did not serve before. */
export class ServedKinds {
  readonly #requests: Pick<ApiRequests, 'ask'>;
  #known: readonly ServedKind[] = [];

  constructor(requests: Pick<ApiRequests, 'ask'>) {
    this.#requests = requests;
  }

  /** Returns the kind that kubectl calls `ippools`, `ipp` or `installations.netplug.io`; throws, as kubectl does, when there is none. */
  async named(name: string): Promise<ServedKind> {
    const [short, ...group] = name.toLowerCase().split('.') as [string, ...string[]];
    const isNamed = (each: ServedKind): boolean =>
      each.names.has(short) && (group.length === 0 || each.group === group.join('.'));
    const found = await this.#find(isNamed);
    if (found === undefined) throw new Error(`the server doesn't have a resource type "${name}"`);
    return found;
  }

  /** Returns the kind of an object, once the server serves it. */
  async ofObject(apiVersion: string, kind: string): Promise<ServedKind> {
    let found: ServedKind | undefined;
    await until(
      async () => {
        found = await this.#find((each) => each.apiVersion === apiVersion && each.kind === kind);
        return found !== undefined;
      },
      `the API server serves ${apiVersion} ${kind}`,
      PUBLISHED_MS,
      100,
    );
    return found!;
  }

  async #find(isWanted: (kind: ServedKind) => boolean): Promise<ServedKind | undefined> {
    const known = this.#known.find(isWanted);
    if (known !== undefined) return known;
    this.#known = await listServedKinds(this.#requests);
    return this.#known.find(isWanted);
  }
}

function kindsIn({ items = [] }: Json): readonly ServedKind[] {
  return items.flatMap(({ metadata, versions = [] }: Json) => {
    const group: string = metadata?.name ?? '';
    return versions.flatMap(({ version, resources = [] }: Json) => {
      const apiVersion = group === '' ? version : `${group}/${version}`;
      return resources.map(
        ({ resource, responseKind, scope, singularResource, shortNames = [], verbs = [] }: Json) => ({
          apiVersion,
          kind: responseKind?.kind,
          resource,
          isNamespaced: scope === 'Namespaced',
          root: group === '' ? `/api/${apiVersion}` : `/apis/${apiVersion}`,
          names: new Set([resource, singularResource, ...shortNames]),
          group,
          isListed: verbs.includes('list'),
        }),
      );
    });
  });
}
