/** What a datastore tells about itself, beside what netplug keeps in it. */
export interface DatastoreReport {
  /** Name and version. */
  readonly server: string;
  readonly sizeBytes?: number;
  readonly quotaBytes?: number;
  /** Of the server, in words. */
  readonly alarms: readonly string[];
  /** How far the caller's clock is ahead of its clock, at least. */
  readonly skewMs?: number;
  /** Kinds of netplug that it does not know. */
  readonly missingKinds: readonly string[];
  /** Kinds that it knows otherwise than this release. */
  readonly differingKinds: readonly string[];
  /** What other nodes are told wrongly of a node that is Ready and has an agent. */
  readonly unpublishedNodes: readonly { readonly node: string; readonly fault: string }[];
  /** Empty when the caller has all rights of at least one role; otherwise those of the role it comes closest to. */
  readonly missingRights: readonly { readonly role: string; readonly rights: readonly string[] }[];
}

/** Looks at a datastore, and changes nothing. Connects when it is first asked. */
export interface Inspector extends AsyncDisposable {
  /** @throws store/unavailable, store/refused, store/config-invalid */
  inspect(signal: AbortSignal): Promise<DatastoreReport>;
}
