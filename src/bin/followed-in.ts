import { isSharedQuery } from '../apps/agent/network-channel.ts';
import type { Datastore } from '../config/connection.ts';
import type { FollowStore } from '../datastore/follow.ts';
import { JoinedFollow } from '../datastore/joined-follow.ts';
import { isFannedOut } from '../datastore/typha/topics.ts';

/** What every node follows comes from netplug-typha, where it is used, and what calls need from the process that serves them. */
export function followedIn({
  agent,
  store,
  typha,
  datastore,
}: {
  readonly agent: FollowStore;
  readonly store: FollowStore;
  readonly typha: FollowStore | undefined;
  readonly datastore: Datastore;
}): FollowStore {
  if (typha !== undefined) return new JoinedFollow({ shared: agent, own: typha }, (query) => !isFannedOut(query));
  return datastore.type === 'orch' ? new JoinedFollow({ shared: agent, own: store }, isSharedQuery) : store;
}
