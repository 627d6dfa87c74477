import { CLUSTER_INFORMATION_NAME } from '../../model/cluster-information.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { ResourceOf } from '../../model/kinds.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { PODS } from '../../kube/paths.ts';
import type { NodeFeed } from '../node-feed.ts';
import type { SettingKind } from '../allocation-store.ts';
import type { NodeChange } from '../watch-store.ts';
import { BLOCKS, readBlock } from './block-objects.ts';
import type { Source } from './followed-objects.ts';
import { holderLabel } from './names.ts';
import { endpointTexts, readEndpoint } from './pod-endpoints.ts';
import { type SettingResources, settingsOf } from './read-node.ts';
import { collectionOf, resourceReader } from './resource-objects.ts';
import { Unreadable } from './unreadable.ts';

/** The seven watches that tell everything about a node. */
export function nodeSources(feed: NodeFeed): readonly Source<NodeChange>[] {
  return [...settingSources(feed), blockSource(feed), podSource(feed)];
}

/** The label is an index: a block that loses it concerns the node no more, and the API tells it as gone. */
function blockSource(feed: NodeFeed): Source<NodeChange> {
  return {
    collection: BLOCKS,
    options: { labelSelector: holderLabel(feed.node) },
    namesIn: ({ metadata }) => [metadata.name],
    take: (name, object) => feed.block(name, object === undefined ? undefined : readBlock(object)),
  };
}

/**
 * Pods change often, and seldom in what netplug wrote on them. Of notes that cannot be read nothing is told: their
 * owners may make as many as they like.
 */
function podSource(feed: NodeFeed): Source<NodeChange> {
  const nameOf = ({ metadata }: ApiObject, key: string): string =>
    `${metadata.namespace ?? ''}/${metadata.name} ${key}`;
  return {
    collection: PODS,
    options: { fieldSelector: `spec.nodeName=${feed.node}` },
    namesIn: (pod) => endpointTexts(pod).map(([key]) => nameOf(pod, key)),
    take: (name, pod) => {
      if (pod === undefined) return feed.endpoint(name, undefined);
      return endpointTexts(pod)
        .filter(([key]) => nameOf(pod, key) === name)
        .flatMap(([key, text]) => {
          const read = readEndpoint(pod, key, text);
          return feed.endpoint(name, read instanceof Unreadable ? undefined : read);
        });
    },
  };
}

function settingSources(feed: NodeFeed): Source<NodeChange>[] {
  const kept: { readonly [K in SettingKind]: Map<string, ResourceOf<K> | Unreadable> } = {
    IPPool: new Map(),
    IPReservation: new Map(),
    IPAMConfiguration: new Map(),
    Node: new Map(),
    ClusterInformation: new Map(),
  };
  const settle = (): NodeChange[] => feed.settings(settingsOf(valuesOf(kept)));
  const source = <K extends SettingKind>(
    kind: K,
    into: Map<string, ResourceOf<K> | Unreadable>,
    only?: string,
  ): Source<NodeChange> => {
    const read = resourceReader(kind);
    return {
      collection: collectionOf(kind),
      options: only === undefined ? {} : { fieldSelector: `metadata.name=${only}` },
      namesIn: ({ metadata }) => [metadata.name],
      take: (name, object) => {
        if (object === undefined) into.delete(name);
        else into.set(name, read(object));
        return [];
      },
      settle,
    };
  };
  return [
    source('IPPool', kept.IPPool),
    source('IPReservation', kept.IPReservation),
    source('IPAMConfiguration', kept.IPAMConfiguration, IPAM_CONFIGURATION_NAME),
    source('Node', kept.Node, feed.node),
    source('ClusterInformation', kept.ClusterInformation, CLUSTER_INFORMATION_NAME),
  ];
}

function valuesOf(kept: {
  readonly [K in SettingKind]: ReadonlyMap<string, SettingResources[K][number]>;
}): SettingResources {
  return {
    IPPool: [...kept.IPPool.values()],
    IPReservation: [...kept.IPReservation.values()],
    IPAMConfiguration: [...kept.IPAMConfiguration.values()],
    Node: [...kept.Node.values()],
    ClusterInformation: [...kept.ClusterInformation.values()],
  };
}
