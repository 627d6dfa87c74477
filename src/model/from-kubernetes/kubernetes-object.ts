/** An object of the Kubernetes API, with the fields that every object has. The converter of its kind decodes the rest. */
export interface KubernetesObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly creationTimestamp?: string | null | undefined;
    readonly deletionTimestamp?: string | null | undefined;
    readonly labels?: Readonly<Record<string, string>> | null | undefined;
    readonly annotations?: Readonly<Record<string, string>> | null | undefined;
  };
  readonly [field: string]: unknown;
}

/** Result of a conversion: a value, and a sentence for each part of the object that cannot be used. */
export interface Converted<T> {
  /** Undefined when the whole object cannot be used. */
  readonly value: T | undefined;
  readonly problems: readonly string[];
}

export function ageOf({ metadata }: KubernetesObject): { readonly creationTimestamp?: string } {
  const { creationTimestamp } = metadata;
  return creationTimestamp === undefined || creationTimestamp === null ? {} : { creationTimestamp };
}
