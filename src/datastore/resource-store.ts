import type { Mode } from '../base/mode.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import type { ResourceId } from '../model/resource-id.ts';

/** A resource with the fields that people wrote, and none of those that reading fills in. */
export type WrittenResource = Pick<AnyResource, 'apiVersion' | 'kind' | 'metadata'> & { readonly spec?: unknown };

/** Who wrote which field of a resource. */
export interface FieldOwnership {
  /**
   * Makes the resource say what was written, and makes these fields the manager's: what it applied before and leaves out
   * now goes, and what others have written stays. Makes the resource when there is none. With `force` it takes fields
   * from others. What the manager wrote by creating or updating is its own, but is not taken away when it is left out.
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

/** The resources that users write. */
export interface ResourceStore {
  /** Of a datastore that knows who wrote which field, as the API of the orchestrator does. */
  readonly fieldOwnership?: FieldOwnership;

  /**
   * Resources of a kind, of all namespaces, ordered by namespace and name, `metadata.resourceVersion` filled in;
   * unreadable ones become problems.
   */
  listResources<K extends ResourceKind>(
    kind: K,
    signal: AbortSignal,
  ): Promise<{ resources: readonly ResourceOf<K>[]; problems: readonly string[] }>;

  findResource<K extends ResourceKind>(which: ResourceId<K>, signal: AbortSignal): Promise<ResourceOf<K> | undefined>;

  /**
   * Fills in uid, creationTimestamp and, where it is left out, the namespace. It is the datastore that rehearses, here and below:
   * the API of the orchestrator has rules that netplug does not know, such as those of webhooks and other releases.
   * @throws resource/exists, resource/invalid
   */
  createResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource>;

  /**
   * Replaces what is there, keeping uid and creationTimestamp; when `metadata.resourceVersion` is given, only that version.
   * @throws resource/not-found, resource/changed
   */
  updateResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource>;

  /** When `resourceVersion` is given, only that version. @throws resource/not-found, resource/changed */
  deleteResource(
    which: ResourceId & { readonly resourceVersion?: string },
    signal: AbortSignal,
    mode?: Mode,
  ): Promise<void>;
}
