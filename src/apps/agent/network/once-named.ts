import { untilAborted } from '../../../base/until-aborted.ts';
import type { FollowStore } from '../../../datastore/follow.ts';
import type { Store } from '../../../datastore/store.ts';

/** Returns the store, which follows nothing before this machine has the name of the node. */
export function followOnce(named: Promise<undefined>, store: FollowStore): FollowStore {
  return {
    follow: async function* (queries, options) {
      await untilAborted(named, options.signal);
      yield* store.follow(queries, options);
    },
  };
}

/** Returns what the network of policies needs of the store, which publishes nothing before that. */
export function publishOnce(
  named: Promise<undefined>,
  store: Pick<Store, 'publishNode' | 'findResource'>,
): Pick<Store, 'publishNode' | 'findResource'> {
  return {
    findResource: async (which, signal) => store.findResource(which, signal),
    publishNode: async (node, facts, signal) => {
      await untilAborted(named, signal);
      await store.publishNode(node, facts, signal);
    },
  };
}
