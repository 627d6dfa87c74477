import type { Kernel } from '../dataplane/kernel.ts';
import { interfaceKey } from '../model/names.ts';

/** Returns a function that lists the attachments with a link, as `<containerId>/<ifName>`. */
export function attachedIn(kernel: Kernel): () => ReadonlySet<string> {
  return () => new Set(kernel.listHostLinks().flatMap(({ owner }) => (owner === undefined ? [] : interfaceKey(owner))));
}
