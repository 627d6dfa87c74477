/** API group and version of every netplug resource. */
export const API_VERSION = 'netplug.io/v3';

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly uid?: string;
  /** RFC 3339. */
  readonly creationTimestamp?: string;
  /** The version of the object in the datastore; opaque. */
  readonly resourceVersion?: string;
}

/** The envelope of every resource, as a user writes it. */
export interface Resource<Kind extends string = string, Spec = unknown> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: Kind;
  readonly metadata: Metadata;
  readonly spec: Spec;
}
