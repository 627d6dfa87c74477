import { never } from '../../base/errors.ts';
import { KINDS, POLICY_KINDS, type ResourceKind } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import { DERIVED_FROM, type FollowedRecord, type Query } from '../follow.ts';

/** What a server follows once for all agents: a query without the node in it, as a word. */
export type FollowTopic = string;

const WHOLE = ['block-routes', 'pods', 'endpoints', 'service-endpoints'] as const;

/** Kinds of which every agent follows all resources; pools and its Node are followed for calls. */
const FANNED_OUT_KINDS: readonly ResourceKind[] = [
  'BGPConfiguration',
  'BGPPeer',
  ...POLICY_KINDS,
  'AgentConfiguration',
];

/** Kinds whose objects calls need as they are stored, with their versions. */
const STORED_KINDS = ['IPPool', 'IPReservation', 'IPAMConfiguration', 'ClusterInformation'] as const;
const STORED_NAMESPACES = 'stored/Namespace';
/** The metadata of the blocks that the node of the client owns or holds an address of. */
export const OWN_BLOCKS = 'stored/own-blocks';

/** Topics of objects as they are stored, for the process that serves calls. */
export const STORED_TOPICS: readonly FollowTopic[] = [
  ...STORED_KINDS.map((kind) => `stored/${kind}`),
  STORED_NAMESPACES,
  OWN_BLOCKS,
];

/** Topics that agents get from netplug-typha. */
export const FANNED_OUT: readonly FollowTopic[] = [
  ...FANNED_OUT_KINDS.map((kind) => `resources/${kind}`),
  'derived/NetworkPolicy',
  'derived/ServiceAccount',
  'nodes',
  ...WHOLE,
  ...STORED_TOPICS,
];

/** Reports whether records of the topic cross as the objects in which they are, with their versions. */
export function isStoredTopic(topic: FollowTopic): boolean {
  return STORED_TOPICS.includes(topic);
}

/** A query as a follower of a topic: which of its records it has. */
export interface TopicQuery {
  readonly topic: FollowTopic;
  readonly isIncluded: (record: FollowedRecord) => boolean;
}

/** Returns the topic that has the records of the query; undefined for what only one node follows. */
export function topicOf(query: Query): TopicQuery | undefined {
  switch (query.kind) {
    case 'resources':
      return { topic: `resources/${query.of}`, isIncluded: isNamed(query.name) };
    case 'derived-resources':
      return { topic: `derived/${query.from}`, isIncluded: all };
    case 'other-nodes':
      return {
        topic: 'nodes',
        isIncluded: (record) => record.kind === 'resource' && record.which.name !== query.self,
      };
    case 'endpoints': {
      const { node } = query;
      return { topic: 'endpoints', isIncluded: node === undefined ? all : (record) => isOnNode(record, node) };
    }
    case 'block-routes':
    case 'pods':
    case 'service-endpoints':
      return { topic: query.kind, isIncluded: all };
    case 'node-blocks':
      return undefined;
    default:
      return never(query);
  }
}

/** Returns the topic of the stored objects in which the records of the query are; undefined for what has none. */
export function storedTopicOf(query: Query): TopicQuery | undefined {
  if (query.kind === 'derived-resources' && query.from === 'Namespace')
    return { topic: STORED_NAMESPACES, isIncluded: all };
  if (query.kind !== 'resources') return undefined;
  const kind = STORED_KINDS.find((each) => each === query.of);
  return kind === undefined ? undefined : { topic: `stored/${kind}`, isIncluded: isNamed(query.name) };
}

/** Returns what a server follows for the topic; undefined for one that this release does not know. */
export function queryOfTopic(topic: FollowTopic): Query | undefined {
  if (topic === 'nodes') return { kind: 'other-nodes' };
  if (topic === OWN_BLOCKS) return { kind: 'block-routes' };
  if (topic === STORED_NAMESPACES) return { kind: 'derived-resources', from: 'Namespace' };
  const stored = STORED_KINDS.find((kind) => topic === `stored/${kind}`);
  if (stored !== undefined) return { kind: 'resources', of: stored };
  const whole = WHOLE.find((kind) => kind === topic);
  if (whole !== undefined) return { kind: whole };
  const from = DERIVED_FROM.find((kind) => topic === `derived/${kind}`);
  if (from !== undefined) return { kind: 'derived-resources', from };
  const [, kind = ''] = /^resources\/(\w+)$/.exec(topic) ?? [];
  return isKind(kind) ? { kind: 'resources', of: kind } : undefined;
}

/** Reports whether the network process of an agent gets the records from netplug-typha, where there is one. */
export function isFannedOut(query: Query): boolean {
  const topic = topicOf(query)?.topic;
  return topic !== undefined && FANNED_OUT.includes(topic);
}

function isKind(kind: string): kind is ResourceKind {
  return Object.hasOwn(KINDS, kind);
}

function all(): boolean {
  return true;
}

function isNamed(name: string | undefined): (record: FollowedRecord) => boolean {
  return name === undefined ? all : (record) => record.kind === 'resource' && record.which.name === name;
}

/** An endpoint that cannot be read is of every node. */
function isOnNode({ value }: FollowedRecord, node: NodeName): boolean {
  if (value === undefined || !('kind' in value) || value.kind !== 'WorkloadEndpoint') return true;
  return value.spec.node === node;
}
