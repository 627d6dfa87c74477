import { ownValue } from '../../base/own-value.ts';
import type { Manifest } from '../../model/manifest.ts';
import { isRecord } from '../../model/read-schema.ts';

/** Fields that the API server writes itself. */
const OF_THE_SERVER = [
  'managedFields',
  'resourceVersion',
  'generation',
  'uid',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
];
/** Annotations that programs write for themselves. */
const OF_PROGRAMS = [
  'kubectl.kubernetes.io/last-applied-configuration',
  'deployment.kubernetes.io/revision',
  'deprecated.daemonset.template.generation',
];

/** Returns what users write of an object: neither its status nor what the API server and controllers note in its metadata. */
export function objectContent(object: Manifest): Manifest {
  const { status: _, metadata, ...content } = object;
  const written = isRecord(metadata) ? without(metadata, OF_THE_SERVER) : {};
  const { annotations } = written;
  const notes = isRecord(annotations) ? without(annotations, OF_PROGRAMS) : {};
  return { ...content, metadata: { ...written, annotations: notes } };
}

/** Returns the value of a label; undefined without it. */
export function labelIn(object: unknown, name: string): string | undefined {
  const metadata = isRecord(object) ? object['metadata'] : undefined;
  const labels = isRecord(metadata) ? metadata['labels'] : undefined;
  const value = isRecord(labels) ? ownValue(labels, name) : undefined;
  return typeof value === 'string' ? value : undefined;
}

function without(record: Manifest, keys: readonly string[]): Manifest {
  return Object.fromEntries(Object.entries(record).filter(([key]) => !keys.includes(key)));
}
