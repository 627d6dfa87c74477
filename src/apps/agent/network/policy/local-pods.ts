import type { PolicyRecord } from '../../../../cache/policy-records.ts';
import { earlierLinkName, podMark } from '../../../../cni/link-name.ts';
import type { SandboxEndpoint } from '../../../../cni/pod-isolation.ts';
import type { HostLink } from '../../../../dataplane/kernel.ts';
import {
  endpointIdOf,
  endpointKey,
  endpointName,
  MAIN_INTERFACE,
  type WorkloadEndpoint,
  withContentOf,
} from '../../../../model/workload-endpoint.ts';
import type { AddTime } from '../../network-channel.ts';
import { ContestedLinks } from './contested-links.ts';
import { isOfAnotherPod } from '../../../../ipam/replaced-endpoint.ts';
import { RoutedPods } from './routed-pods.ts';

type EndpointRecord = Extract<PolicyRecord, { readonly kind: 'endpoint' }>;

const OWN_IPAM = 'netplug-ipam';

interface LocalPod {
  /** Endpoint as the ADD of the pod knows it. */
  readonly added: WorkloadEndpoint;
  /** Whether the datastore had a record of the same pod since. */
  isRecorded: boolean;
  /** Whether the node had a record of the attachment. The pod leaves with it. */
  isListed: boolean;
}

/** An endpoint as the node has recorded it. */
export interface ListedEndpoint {
  readonly endpoint: WorkloadEndpoint;
  /** When its ADD recorded it, RFC 3339. */
  readonly at: string;
  /** Whether its link exists. It does not before the end of its ADD, and after a reboot. */
  readonly isLinked: boolean;
}

/** Endpoints that the node has recorded. */
export interface ListedEndpoints {
  readonly endpoints: readonly ListedEndpoint[];
  /** Whether every record could be read. What is missing in a list that is not complete may be there. */
  readonly isComplete: boolean;
}

/**
 * Joins what the ADD of a pod of this node knows with the pod's record in the datastore. Interface and addresses come from ADD:
 * users may change a record that is an annotation. Labels, ports and profiles come from the record once there is one.
 */
export class LocalPods {
  readonly #node: string;
  readonly #pods = new Map<string, LocalPod>();
  readonly #records = new Map<string, WorkloadEndpoint>();
  /** Sandboxes that were removed, and may still be listed. */
  readonly #removed = new Set<string>();
  readonly #routed = new RoutedPods();
  readonly #contested: ContestedLinks;
  readonly #listLinks: () => readonly HostLink[];
  /** The links of the node, as they were when a record without an ADD was joined last. */
  #links: readonly HostLink[] | undefined;
  /** Keys of records of this node without an ADD, whose link has not been found yet. */
  readonly #unlinked = new Set<string>();
  /** Pods whose flows must end, since they were asked for last: their interface may be another one's, or their record was replaced. */
  #ended: WorkloadEndpoint[] = [];

  /** `listLinks` lists the links of pods, whose aliases only root can write. */
  constructor(node: string, listLinks: () => readonly HostLink[] = () => []) {
    this.#node = node;
    this.#listLinks = listLinks;
    this.#contested = new ContestedLinks(node);
  }

  /** Returns a sentence for each interface that several pods claim. */
  problems(): readonly string[] {
    return this.#contested.problems();
  }

  /** Returns the interfaces of the pods whose ADD is known. */
  get interfaces(): readonly string[] {
    return [...this.#pods.values()].map(({ added }) => added.spec.interfaceName);
  }

  /** Returns the UID of a pod; undefined when it is not known. */
  uidOf(namespace: string, pod: string): string | undefined {
    const known = [...[...this.#pods.values()].map(({ added }) => added), ...this.#records.values()];
    return known.find(({ metadata, spec }) => metadata.namespace === namespace && spec.pod === pod)?.spec.podUID;
  }

  /** The time decides between holders of one address: the record of an earlier holder is older. */
  add(endpoint: WorkloadEndpoint, { addedAt, isPast }: AddTime): readonly EndpointRecord[] {
    const key = keyOf(endpoint);
    const added = asAdded(endpoint, addedAt);
    const before = this.#pods.get(key)?.added;
    if (before !== undefined && isLostTo(before, added)) this.#ended.push(before);
    this.#pods.set(key, { added, isRecorded: isPast && endpoint.spec.pod !== undefined, isListed: false });
    this.#removed.delete(sandboxOf(endpoint));
    return this.#contested.settle([this.#joined(key)]);
  }

  /** Takes the endpoints that the node has recorded: those of calls that another process served. */
  list({ endpoints: listed, isComplete }: ListedEndpoints): readonly EndpointRecord[] {
    const sandboxes = new Set(listed.map(({ endpoint }) => sandboxOf(endpoint)));
    const isGone = (sandbox: string): boolean => isComplete && !sandboxes.has(sandbox);
    for (const sandbox of this.#removed) if (isGone(sandbox)) this.#removed.delete(sandbox);
    const touched = new Set<string>();
    for (const [key, pod] of this.#pods) {
      if (pod.isListed && isGone(sandboxOf(pod.added))) {
        this.#pods.delete(key);
        touched.add(key);
      }
      pod.isListed ||= sandboxes.has(sandboxOf(pod.added));
    }
    for (const { endpoint, at } of listed.filter(({ isLinked }) => isLinked)) {
      const key = keyOf(endpoint);
      const known = this.#pods.get(key);
      const knownAt = Date.parse(known?.added.metadata.creationTimestamp ?? '');
      if (this.#removed.has(sandboxOf(endpoint)) || knownAt >= Date.parse(at)) continue;
      const added = asAdded(endpoint, at);
      // A pod that the datastore does not know was deleted, unless its ADD is the one of this process.
      const isSame = known !== undefined && sandboxOf(known.added) === sandboxOf(endpoint);
      const isRecorded = isSame ? known.isRecorded : endpoint.spec.pod !== undefined;
      this.#pods.set(key, { added, isRecorded, isListed: true });
      touched.add(key);
    }
    // The link of a pod comes later than its record when another process serves its ADD.
    for (const key of this.#unlinked) touched.add(key);
    if (this.#unlinked.size > 0) this.#links = undefined;
    const before = new Set(this.#unlinked);
    const joined = [...touched].map((key) => this.#joined(key));
    return this.#contested.settle(joined.filter(({ key }) => !before.has(key) || !this.#unlinked.has(key)));
  }

  /**
   * Removes a pod, unless a newer sandbox of the same pod has its place. Returns the endpoint as it was.
   */
  remove(sandbox: SandboxEndpoint): {
    readonly records: readonly EndpointRecord[];
    readonly released: WorkloadEndpoint | undefined;
  } {
    const { containerID } = sandbox.spec;
    const key = this.#keyOf(sandbox);
    this.#removed.add(sandboxOf(sandbox));
    const released = this.#pods.get(key)?.added ?? this.#records.get(key);
    const isOther = released?.spec.containerID !== '' && released?.spec.containerID !== containerID;
    if (released === undefined || isOther) return { records: [], released: undefined };
    this.#pods.delete(key);
    // A record of this sandbox may change once more before it is deleted.
    this.#records.delete(key);
    this.#unlinked.delete(key);
    return { records: this.#contested.settle([{ kind: 'endpoint', key, value: undefined }]), released };
  }

  /** Returns the records as policy must take them. */
  join(records: readonly PolicyRecord[]): readonly PolicyRecord[] {
    this.#links = undefined;
    const endpoints = records.flatMap((record) => (record.kind === 'endpoint' ? this.#follow(record) : []));
    const others = records.filter((record) => record.kind !== 'endpoint');
    return [...others, ...this.#contested.settle([...endpoints, ...this.#assignLinks()])];
  }

  /** Takes the interfaces of pods that another plugin has connected, by the text of an address. */
  useLinks(links: ReadonlyMap<string, string>): readonly EndpointRecord[] {
    this.#routed.setLinks(links);
    return this.#contested.settle(this.#assignLinks());
  }

  /** Returns the pods of another plugin that lost their interface since the last call, and those that lost their record, as they were. */
  takeEnded(): readonly WorkloadEndpoint[] {
    return this.#ended.splice(0);
  }

  /** An ADD knows the interface of its pod. */
  #assignLinks(): readonly EndpointRecord[] {
    const others = new Map([...this.#records].filter(([key]) => !this.#pods.has(key)));
    const { changed, ended } = this.#routed.assign(others);
    this.#ended.push(...ended);
    return changed.map((key) => this.#joined(key));
  }

  #follow(record: EndpointRecord): readonly EndpointRecord[] {
    const { key, value } = record;
    if (value === undefined ? !this.#records.has(key) : value.spec.node !== this.#node) return [record];
    if (value === undefined) this.#unlinked.delete(key);
    if (value === undefined) this.#records.delete(key);
    else this.#records.set(key, value);
    const others = [...this.#pods].filter(([each, { added }]) => each !== key && mainKeyOf(added) === key);
    return [key, ...others.map(([each]) => each)].map((each) => this.#joined(each));
  }

  /** Returns the key of the record of the sandbox: another than that of its pod, once another pod of the name has that. */
  #keyOf(sandbox: SandboxEndpoint): string {
    const { containerID } = sandbox.spec;
    const key = keyOf(sandbox);
    const known = this.#pods.get(key)?.added ?? this.#records.get(key);
    if (known === undefined || known.spec.containerID === '' || known.spec.containerID === containerID) return key;
    const own = [...this.#records].find(
      ([, { spec }]) => spec.containerID === containerID && spec.endpoint === known.spec.endpoint,
    );
    return own?.[0] ?? key;
  }

  #joined(key: string): EndpointRecord {
    const pod = this.#pods.get(key);
    const record = this.#records.get(key) ?? (pod && this.#records.get(mainKeyOf(pod.added)));
    const linkOf = (of: WorkloadEndpoint): WorkloadEndpoint => this.#withInterface(of, key);
    this.#unlinked.delete(key);
    if (pod === undefined) return { kind: 'endpoint', key, value: record && linkOf(record) };
    const { added } = pod;
    if (record !== undefined && isSuccessor(record, added)) {
      this.#pods.delete(key);
      return { kind: 'endpoint', key, value: linkOf(record) };
    }
    const isSame = record !== undefined && isSamePod(record, added);
    pod.isRecorded ||= isSame;
    if (isSame) return { kind: 'endpoint', key, value: withContentOf(added, record) };
    // A pod that has finished, or was deleted: its rules stay until its DEL, but its addresses belong to no peer.
    const isOver = pod.isRecorded && record === undefined;
    return {
      kind: 'endpoint',
      key,
      value: isOver ? { ...added, spec: { ...added.spec, ipNetworks: [] } } : added,
    };
  }

  /**
   * Records that are made from pods name no interface. Without an ADD that is known here, a pod has the interface that another
   * plugin made, or the link whose alias names it; never one whose alias names another pod.
   */
  #withInterface(record: WorkloadEndpoint, key: string): WorkloadEndpoint {
    const { pod, interfaceName } = record.spec;
    if (pod === undefined) return record;
    const marks = marksOf(record, pod);
    this.#links ??= this.#listLinks();
    const recorded = this.#links.find(({ name }) => name === interfaceName)?.owner?.podMark;
    if (interfaceName !== '' && (recorded === undefined || marks.includes(recorded))) return record;
    const earlier = earlierLinkName({ namespace: record.metadata.namespace ?? 'default', name: pod });
    const isOwn = ({ name, owner }: HostLink): boolean =>
      owner?.ifName === record.spec.endpoint &&
      (owner.podMark === undefined ? name === earlier : marks.includes(owner.podMark));
    const found = this.#routed.linkOf(key) ?? this.#links.find(isOwn)?.name;
    if (found === undefined) this.#unlinked.add(key);
    return { ...record, spec: { ...record.spec, interfaceName: found ?? '' } };
  }
}

/** Returns the marks that the alias of the pod's link may have: not every runtime tells the UID. */
function marksOf({ metadata, spec }: WorkloadEndpoint, name: string): readonly string[] {
  const pod = { namespace: metadata.namespace ?? 'default', name, uid: undefined };
  return [podMark(pod), podMark({ ...pod, uid: spec.podUID })];
}

/** Its own ADD is as certain for a node as what the kubelet reports. */
function asAdded({ metadata, spec, ...rest }: WorkloadEndpoint, at: string): WorkloadEndpoint {
  return { ...rest, metadata: { ...metadata, creationTimestamp: at }, spec: { ...spec, areAddressesReported: true } };
}

function isSamePod(record: WorkloadEndpoint, added: WorkloadEndpoint): boolean {
  const isSameSandbox = record.spec.containerID === added.spec.containerID;
  return isSameSandbox || (added.spec.podUID !== undefined && record.spec.podUID === added.spec.podUID);
}

/**
 * Reports whether a pod that may run on has no record any more, because the next pod of its name has it: the records of those
 * with addresses of netplug stay.
 */
function isLostTo(before: WorkloadEndpoint, next: WorkloadEndpoint): boolean {
  return isOfAnotherPod(before, next) && before.spec.ipam !== OWN_IPAM;
}

/**
 * Reports whether the record is of a later pod of the same name, whose ADD the standalone server served. The record of
 * another interface cannot stand for it.
 */
function isSuccessor(record: WorkloadEndpoint, added: WorkloadEndpoint): boolean {
  const [ofRecord, ofAdded] = [record, added].map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? ''));
  const isOther = record.spec.podUID !== undefined && record.spec.podUID !== added.spec.podUID;
  return (
    isOther &&
    !isSamePod(record, added) &&
    record.metadata.name === added.metadata.name &&
    Number(ofRecord) > Number(ofAdded)
  );
}

/** Returns a text that is unique for the endpoint of one sandbox. */
function sandboxOf(sandbox: SandboxEndpoint): string {
  return JSON.stringify([keyOf(sandbox), sandbox.spec.containerID]);
}

function keyOf(sandbox: SandboxEndpoint): string {
  return endpointKey(endpointIdOf(sandbox));
}

/** Returns the key of the pod's main interface, whose record stands for the pod where the orchestrator has pods. */
function mainKeyOf(added: WorkloadEndpoint): string {
  const { node, orchestrator, pod } = added.spec;
  if (orchestrator !== 'orch' || pod === undefined) return keyOf(added);
  const name = endpointName({ node, orchestrator, workload: pod, endpoint: MAIN_INTERFACE });
  return endpointKey({ node, namespace: added.metadata.namespace ?? 'default', name });
}
