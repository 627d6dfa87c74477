import { isNetplugError } from '../../../../base/errors.ts';
import type { FollowStore } from '../../../../datastore/follow.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { Node } from '../../../../model/node.ts';
import { endsOf, type NodeEnds } from '../../../../routing/node-ends.ts';

const READ_MS = 5000;

/**
 * Reads once what all nodes publish, this one too, as of one moment: that of the call, or that of a copy from netplug-typha. Undefined
 * when it cannot be read now.
 */
export async function readPublished(
  followed: FollowStore,
  signal: AbortSignal,
): Promise<ReadonlyMap<NodeName, NodeEnds> | undefined> {
  const either = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
  try {
    for await (const event of followed.follow([{ kind: 'other-nodes' }], { isFresh: true, signal: either })) {
      if (event.kind !== 'snapshot') continue;
      const published = new Map<NodeName, NodeEnds>();
      for (const record of event.records) {
        if (record.kind !== 'resource' || record.value === undefined) continue;
        // The query returns only nodes, each registered under the name of its resource.
        published.set(record.which.name as NodeName, endsOf(record.value as Node));
      }
      return published;
    }
  } catch (cause) {
    if (!isNetplugError(cause)) throw cause;
  }
  return undefined;
}
