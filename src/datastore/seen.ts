import type { AnyResource } from '../model/kinds.ts';

/** A record as it is now, as far as it can be read, and what is wrong with the rest; neither when it is gone. */
export interface Seen<T> {
  readonly value?: T | undefined;
  readonly problem?: string | undefined;
}

/** Versions also change where nothing that is told does. */
export function unversioned<R extends AnyResource>(resource: R): R {
  const { resourceVersion: _, ...metadata } = resource.metadata;
  return { ...resource, metadata };
}
