import { OneToMany } from '../../../../base/one-to-many.ts';
import type { PolicyRecord } from '../../../../cache/policy-records.ts';
import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';

type EndpointRecord = Extract<PolicyRecord, { readonly kind: 'endpoint' }>;

/**
 * Lets an interface of the node belong to one endpoint. While several claim it, none has it, so that all of them are closed:
 * no one can tell whose packets come from it.
 */
export class ContestedLinks {
  readonly #node: string;
  readonly #endpoints = new Map<string, WorkloadEndpoint>();
  /** Keys of the endpoints that claim an interface, by its name. */
  readonly #claims = new OneToMany<string, string>();

  constructor(node: string) {
    this.#node = node;
  }

  /** Returns the records as they count, and those of other endpoints whose interface has become contested or free. */
  settle(records: readonly EndpointRecord[]): readonly EndpointRecord[] {
    const others = new Set<string>();
    for (const { key, value } of records) {
      const touched = [this.#endpoints.get(key)?.spec.interfaceName, ownInterface(value, this.#node)];
      this.#set(key, value);
      for (const name of touched) for (const each of this.#claims.get(name ?? '')) others.add(each);
    }
    for (const { key } of records) others.delete(key);
    const all = [
      ...records,
      ...[...others].map((key) => ({ kind: 'endpoint' as const, key, value: this.#endpoints.get(key) })),
    ];
    return all.map((record) => ({ ...record, value: this.#settled(record.value) }));
  }

  /** Returns a sentence for each interface that several endpoints claim. */
  problems(): readonly string[] {
    return [...this.#claims.keys()].flatMap((name) => {
      const keys = this.#claims.get(name);
      if (keys.length < 2) return [];
      const pods = keys.map((key) => shown(this.#endpoints.get(key))).toSorted();
      return [`interface "${name}" is claimed by ${pods.join(' and ')}: all of them are closed; recreate one of them`];
    });
  }

  #set(key: string, value: WorkloadEndpoint | undefined): void {
    const before = this.#endpoints.get(key)?.spec.interfaceName;
    const name = ownInterface(value, this.#node);
    if (before !== undefined && before !== name) this.#claims.delete(before, key);
    if (value === undefined || name === undefined) {
      this.#endpoints.delete(key);
      return;
    }
    this.#endpoints.set(key, value);
    this.#claims.add(name, key);
  }

  #settled(value: WorkloadEndpoint | undefined): WorkloadEndpoint | undefined {
    const name = ownInterface(value, this.#node);
    if (value === undefined || name === undefined || this.#claims.get(name).length < 2) return value;
    return { ...value, spec: { ...value.spec, interfaceName: '' } };
  }
}

/** Returns the interface of the node that the endpoint claims; undefined when it claims none. */
function ownInterface(value: WorkloadEndpoint | undefined, node: string): string | undefined {
  if (value?.spec.node !== node || value.spec.interfaceName === '') return undefined;
  return value.spec.interfaceName;
}

function shown(value: WorkloadEndpoint | undefined): string {
  const { metadata, spec } = value ?? { metadata: undefined, spec: undefined };
  return `"${metadata?.namespace ?? 'default'}/${spec?.pod ?? spec?.containerID ?? ''}"`;
}
