import { ownTurn } from '../../base/turns.ts';
import { CLUSTER_INFORMATION_ID } from '../../model/cluster-information.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { NodeName } from '../../model/names.ts';
import { NodeFeed } from '../node-feed.ts';
import type { SettingKind } from '../allocation-store.ts';
import type { NodeChange } from '../watch-store.ts';
import { EtcdWatch, isPut } from './etcd-watch.ts';
import { type BlockTopic, FollowedBlocks } from './followed-blocks.ts';
import type { Event, KeyValue } from '../../../proto/gen/etcd_pb.js';
import type { Keys } from './keys.ts';
import type { Reach } from './read-blocks.ts';
import { readNodeRecords, type SettingRecords, settingsOf } from './read-node.ts';
import { endpointReader, foundBy } from './records.ts';
import { getRange, rangeOf, decodeText } from './requests.ts';

type Topic =
  | { readonly about: 'blocks'; readonly where: BlockTopic }
  | { readonly about: 'endpoints' }
  | { readonly about: 'settings'; readonly kind: SettingKind };

/** One reading and one stream; a borrowed block or a moved one costs one more reading when it happens. */
export async function* watchNode(reach: Reach, node: NodeName): AsyncGenerator<NodeChange> {
  const { client, keys, signal } = reach;
  const records = await readNodeRecords(reach, node, [getRange(rangeOf(keys.endpoints(node)))]);
  const { revision } = records;
  const feed = new NodeFeed(node);
  const watch = new EtcdWatch<Topic>(client);
  const settings = new FollowedSettings(keys, records);
  const blocks = new FollowedBlocks({
    reach,
    feed,
    watch,
    follow: (key, after) => watch.follow({ about: 'blocks', where: 'borrowed' }, key, after),
  });
  for (const kv of records.endpoints) feed.endpoint(decodeText(kv.key), foundBy(kv, endpointReader(keys)));
  feed.settings(settings.now());
  blocks.begin(records);
  yield feed.all();

  watch.follow({ about: 'blocks', where: 'owned' }, keys.blocksOf(node), revision);
  watch.follow({ about: 'blocks', where: 'lent' }, keys.borrowedBy(node), revision);
  watch.follow({ about: 'endpoints' }, keys.endpoints(node), revision);
  for (const kind of ['IPPool', 'IPReservation'] as const) {
    watch.follow({ about: 'settings', kind }, keys.resources(kind), revision);
  }
  for (const one of [
    { kind: 'IPAMConfiguration', name: IPAM_CONFIGURATION_NAME },
    { kind: 'Node', name: node },
    CLUSTER_INFORMATION_ID,
  ] as const) {
    watch.follow({ about: 'settings', kind: one.kind }, keys.resource(one), revision);
  }
  for await (const { topic, events } of watch.batches(signal)) {
    await ownTurn();
    if (topic.about === 'settings') {
      for (const event of events) settings.apply(topic.kind, event);
      yield* feed.settings(settings.now());
    } else {
      for (const event of events) {
        if (topic.about === 'blocks') yield* await blocks.changes(topic.where, event);
        else yield* endpointChanges(feed, keys, event);
      }
    }
  }
}

function endpointChanges(feed: NodeFeed, keys: Keys, event: Event): NodeChange[] {
  const { kv } = event;
  if (kv === undefined) return [];
  return feed.endpoint(decodeText(kv.key), foundBy(isPut(event) ? kv : undefined, endpointReader(keys)));
}

/** The records of settings, as few as people write. */
class FollowedSettings {
  readonly #keys: Keys;
  readonly #records: Record<SettingKind, Map<string, KeyValue>>;

  constructor(keys: Keys, { IPPool, IPReservation, IPAMConfiguration, Node, ClusterInformation }: SettingRecords) {
    this.#keys = keys;
    const byKey = (kvs: readonly KeyValue[]): Map<string, KeyValue> =>
      new Map(kvs.map((kv) => [decodeText(kv.key), kv]));
    this.#records = {
      IPPool: byKey(IPPool),
      IPReservation: byKey(IPReservation),
      IPAMConfiguration: byKey(IPAMConfiguration),
      Node: byKey(Node),
      ClusterInformation: byKey(ClusterInformation),
    };
  }

  apply(kind: SettingKind, event: Event): void {
    const { kv } = event;
    if (kv === undefined) return;
    if (isPut(event)) this.#records[kind].set(decodeText(kv.key), kv);
    else this.#records[kind].delete(decodeText(kv.key));
  }

  now(): ReturnType<typeof settingsOf> {
    const { IPPool, IPReservation, IPAMConfiguration, Node, ClusterInformation } = this.#records;
    return settingsOf(this.#keys, {
      IPPool: [...IPPool.values()],
      IPReservation: [...IPReservation.values()],
      IPAMConfiguration: [...IPAMConfiguration.values()],
      Node: [...Node.values()],
      ClusterInformation: [...ClusterInformation.values()],
    });
  }
}
