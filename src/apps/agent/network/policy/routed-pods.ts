import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';
import { formatAddress } from '../../../../net/address.ts';
import { tryReadCidr } from '../../../../net/cidr.ts';

/** State of a pod at the last assignment. */
interface Assigned {
  readonly pod: WorkloadEndpoint;
  readonly link: string | undefined;
}

/**
 * Assigns interfaces that another plugin made to pods that the API has: the interface to which the route to an address of the
 * pod leads. An interface belongs to one pod: of several with the
 * address, to the youngest. A pod that terminates keeps its interface and gets no other one: a new interface with its address
 * is that of the next pod, whose address is not reported yet.
 */
export class RoutedPods {
  #links: ReadonlyMap<string, string> = new Map();
  #assigned: ReadonlyMap<string, Assigned> = new Map();

  /** Sets the interface by the text of the address. */
  setLinks(links: ReadonlyMap<string, string>): void {
    this.#links = links;
  }

  /** Returns the name of the interface; undefined when it is not known. */
  linkOf(key: string): string | undefined {
    return this.#assigned.get(key)?.link;
  }

  /** Assigns anew. Returns the keys of pods that have another interface now, and those that lost theirs as they were. */
  assign(pods: ReadonlyMap<string, WorkloadEndpoint>): {
    readonly changed: readonly string[];
    readonly ended: readonly WorkloadEndpoint[];
  } {
    const before = this.#assigned;
    const assigned = new Map<string, Assigned>();
    const taken = new Set<string>();
    for (const [key, pod] of [...pods].toSorted(byAge)) {
      const last = before.get(key);
      const link = this.#findLink(pod, isSamePod(last, pod) ? last : undefined, taken);
      if (link !== undefined) taken.add(link);
      assigned.set(key, { pod, link });
    }
    this.#assigned = assigned;
    const ended = [...before].filter(([key, { pod, link }]) => {
      const now = assigned.get(key);
      return link !== undefined && (now?.link !== link || !isSamePod(now, pod));
    });
    const keys = new Set([...before.keys(), ...assigned.keys()]);
    const changed = [...keys].filter((key) => before.get(key)?.link !== assigned.get(key)?.link);
    return { changed, ended: ended.map(([, { pod }]) => pod) };
  }

  #findLink({ spec }: WorkloadEndpoint, last: Assigned | undefined, taken: ReadonlySet<string>): string | undefined {
    for (const text of spec.ipNetworks) {
      const address = tryReadCidr(text)?.address;
      const link = address && this.#links.get(formatAddress(address));
      if (link === undefined || taken.has(link)) continue;
      const isOther = spec.isTerminating === true && last !== undefined && last.link !== link;
      if (!isOther) return link;
    }
    return undefined;
  }
}

function isSamePod(assigned: Assigned | undefined, { spec }: WorkloadEndpoint): boolean {
  return assigned?.pod.spec.podUID === spec.podUID;
}

/** The youngest first. The API has times in seconds, of one format. */
function byAge([keyA, a]: readonly [string, WorkloadEndpoint], [keyB, b]: readonly [string, WorkloadEndpoint]): number {
  const [ageA = '', ageB = ''] = [a, b].map(({ metadata }) => metadata.creationTimestamp);
  if (ageA !== ageB) return ageA > ageB ? -1 : 1;
  return keyA < keyB ? -1 : 1;
}
