import type { PolicyRecord } from '../../../cache/policy-records.ts';
import { hostLinkName } from '../../../cni/link-name.ts';
import type { SandboxEndpoint } from '../../../cni/pod-isolation.ts';
import {
  attachmentOf,
  endpointIdOf,
  endpointKey,
  endpointName,
  type WorkloadEndpoint,
} from '../../../model/workload-endpoint.ts';

type EndpointRecord = Extract<PolicyRecord, { readonly kind: 'endpoint' }>;

interface LocalPod {
  /** As its ADD knows it. */
  readonly added: WorkloadEndpoint;
  /** Whether the datastore had a record of the same pod since. */
  isRecorded: boolean;
}

/**
 * Joins what the ADD of a pod of this node knows with the pod's record in the datastore. Interface and addresses come from ADD:
 * users may change a record that is an annotation. Labels, ports and profiles come from the record once there is one.
 */
export class LocalPods {
  readonly #node: string;
  readonly #pods = new Map<string, LocalPod>();
  readonly #records = new Map<string, WorkloadEndpoint>();

  constructor(node: string) {
    this.#node = node;
  }

  /** Returns the interfaces of the pods whose ADD is known. */
  get interfaces(): readonly string[] {
    return [...this.#pods.values()].map(({ added }) => added.spec.interfaceName);
  }

  /** `at` is the time of the ADD, RFC 3339: a record of an earlier holder of its addresses is older. */
  add(endpoint: WorkloadEndpoint, at: string): readonly EndpointRecord[] {
    const key = keyOf(endpoint);
    const added = { ...endpoint, metadata: { ...endpoint.metadata, creationTimestamp: at } };
    this.#pods.set(key, { added, isRecorded: false });
    return [this.#joined(key)];
  }

  /** Removes a pod, unless a newer sandbox of the same pod has its place. Returns the endpoint as it was. */
  remove({ metadata, spec }: SandboxEndpoint): {
    readonly records: readonly EndpointRecord[];
    readonly released: WorkloadEndpoint | undefined;
  } {
    const key = endpointKey({ node: spec.node, namespace: metadata.namespace ?? 'default', name: metadata.name });
    const released = this.#pods.get(key)?.added ?? this.#records.get(key);
    const isOther = released?.spec.containerID !== '' && released?.spec.containerID !== spec.containerID;
    if (released === undefined || isOther) return { records: [], released: undefined };
    this.#pods.delete(key);
    // A record of this sandbox may change once more before it is deleted.
    this.#records.delete(key);
    return { records: [{ kind: 'endpoint', key, value: undefined }], released };
  }

  /** Returns the records as policy must take them. */
  join(records: readonly PolicyRecord[]): readonly PolicyRecord[] {
    return records.flatMap((record) => (record.kind === 'endpoint' ? this.#follow(record) : [record]));
  }

  #follow(record: EndpointRecord): readonly PolicyRecord[] {
    const { key, value } = record;
    if (value === undefined ? !this.#records.has(key) : value.spec.node !== this.#node) return [record];
    if (value === undefined) this.#records.delete(key);
    else this.#records.set(key, value);
    const others = [...this.#pods].filter(([each, { added }]) => each !== key && mainKeyOf(added) === key);
    return [key, ...others.map(([each]) => each)].map((each) => this.#joined(each));
  }

  #joined(key: string): EndpointRecord {
    const pod = this.#pods.get(key);
    const record = this.#records.get(key) ?? (pod && this.#records.get(mainKeyOf(pod.added)));
    if (pod === undefined) return { kind: 'endpoint', key, value: record && withInterface(record) };
    const { added } = pod;
    if (record !== undefined && isSuccessor(record, added)) {
      this.#pods.delete(key);
      return { kind: 'endpoint', key, value: withInterface(record) };
    }
    const isSame = record !== undefined && isSamePod(record, added);
    pod.isRecorded ||= isSame;
    if (isSame) return { kind: 'endpoint', key, value: withContent(added, record) };
    // A pod that has finished, or was deleted: its rules stay until its DEL, but its addresses belong to no peer.
    const isOver = pod.isRecorded && record === undefined;
    return {
      kind: 'endpoint',
      key,
      value: isOver ? { ...added, spec: { ...added.spec, ipNetworks: [] } } : added,
    };
  }
}

/** Records that are made from pods do not name the interface. Its name follows from that of the pod. */
function withInterface(record: WorkloadEndpoint): WorkloadEndpoint {
  const { pod, interfaceName } = record.spec;
  if (interfaceName !== '' || pod === undefined) return record;
  const name = hostLinkName({ namespace: record.metadata.namespace ?? 'default', name: pod }, attachmentOf(record));
  return { ...record, spec: { ...record.spec, interfaceName: name } };
}

function withContent(added: WorkloadEndpoint, { metadata, spec }: WorkloadEndpoint): WorkloadEndpoint {
  const { profiles, ports, serviceAccountName } = spec;
  const { ports: _ports, serviceAccountName: _account, ...rest } = added.spec;
  return {
    ...added,
    metadata: { ...added.metadata, labels: metadata.labels ?? {} },
    spec: {
      ...rest,
      profiles,
      ...(ports === undefined ? {} : { ports }),
      ...(serviceAccountName === undefined ? {} : { serviceAccountName }),
    },
  };
}

function isSamePod(record: WorkloadEndpoint, added: WorkloadEndpoint): boolean {
  const isSameSandbox = record.spec.containerID === added.spec.containerID;
  return isSameSandbox || (added.spec.podUID !== undefined && record.spec.podUID === added.spec.podUID);
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

function keyOf(endpoint: WorkloadEndpoint): string {
  return endpointKey(endpointIdOf(endpoint));
}

/** Returns the key of the pod's main interface, whose record stands for the pod where the orchestrator has pods. */
function mainKeyOf(added: WorkloadEndpoint): string {
  const { node, orchestrator, pod } = added.spec;
  if (orchestrator !== 'orch' || pod === undefined) return keyOf(added);
  const name = endpointName({ node, orchestrator, workload: pod, endpoint: 'eth0' });
  return endpointKey({ node, namespace: added.metadata.namespace ?? 'default', name });
}
