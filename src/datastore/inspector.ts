/** The state of the datastore itself. */
export interface DatastoreReport {
  /** Name and version. */
  readonly server: string;
  readonly sizeBytes?: number;
  readonly quotaBytes?: number;
  /** Alarms of the server, as text. */
  readonly alarms: readonly string[];
  /** The least amount by which the caller's clock is ahead of the server's. */
  readonly skewMs?: number;
  /** Kinds of netplug that the server does not have. */
  readonly missingKinds: readonly string[];
  /** Kinds whose definition differs from that of this release. */
  readonly differingKinds: readonly string[];
  /** Ready nodes with an agent whose published record is wrong or missing. */
  readonly unpublishedNodes: readonly { readonly node: string; readonly fault: string }[];
  /** Empty when the caller has all rights of a role; otherwise the rights that it lacks for the closest role. */
  readonly missingRights: readonly { readonly role: string; readonly rights: readonly string[] }[];
}

/** Inspects a datastore without changing it. Connects on first use. */
export interface Inspector extends AsyncDisposable {
  /** @throws store/unavailable, store/refused, store/config-invalid */
  inspect(signal: AbortSignal): Promise<DatastoreReport>;
}
