import type { Mode } from '../base/mode.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import type { ResourceId } from '../model/resource-id.ts';

/** A resource with only the fields that the user wrote. */
export type WrittenResource = Pick<AnyResource, 'apiVersion' | 'kind' | 'metadata'> & { readonly spec?: unknown };

/** Server-side apply, with an owner for each field of a resource. */
export interface FieldOwnership {
  /**
   * Applies the fields and makes the manager their owner. Removes fields that the manager applied before and now leaves
   * out, and keeps fields of other managers. Creates a missing resource. With `force`, takes over fields of other
   * managers. Fields that the manager wrote with create or update are its own, but are not removed when left out.
   * @throws resource/field-conflict, resource/changed when metadata names another version, resource/invalid
   */
  apply(
    what: {
      readonly resource: WrittenResource;
      readonly manager: string;
      readonly force: boolean;
      readonly mode?: Mode;
    },
    signal: AbortSignal,
  ): Promise<AnyResource>;
}

/** A resource, at a version if that is given. */
export type VersionedId = ResourceId & { readonly resourceVersion?: string };

export interface ResourceListing<K extends ResourceKind> {
  readonly resources: readonly ResourceOf<K>[];
  readonly problems: readonly string[];
}

/** The resources that users write. */
export interface ResourceStore {
  /** Set for a datastore that records the owner of each field, such as the API of the orchestrator. */
  readonly fieldOwnership?: FieldOwnership;

  /**
   * Returns the resources of a kind in all namespaces, ordered by namespace and name, with `metadata.resourceVersion`.
   * Unreadable ones become problems.
   */
  listResources<K extends ResourceKind>(kind: K, signal: AbortSignal): Promise<ResourceListing<K>>;

  findResource<K extends ResourceKind>(which: ResourceId<K>, signal: AbortSignal): Promise<ResourceOf<K> | undefined>;

  /**
   * Fills in uid, creationTimestamp and a missing namespace. With a dry-run mode, here and below, the datastore itself
   * validates: the API of the orchestrator has rules that netplug does not know, such as those of webhooks.
   * @throws resource/exists, resource/invalid
   */
  createResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource>;

  /**
   * Replaces the resource, and keeps uid and creationTimestamp. Expects `metadata.resourceVersion` when it is given.
   * @throws resource/not-found, resource/changed
   */
  updateResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource>;

  /** Expects `resourceVersion` when it is given. @throws resource/not-found, resource/changed */
  deleteResource(which: VersionedId, signal: AbortSignal, mode?: Mode): Promise<void>;
}
