import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { isDnsLabel, isDnsSubdomain } from './dns-name.ts';

const NAMESPACE = 'lower-case letters, digits and "-", at most 63 characters';
const NAME = 'lower-case letters, digits, "-" and ".", at most 253 characters';
/** Kubernetes refuses more than this for all annotations of one object together. */
const LARGEST_ANNOTATIONS = 262_144;

const LabelKey = v.pipe(v.string('a string'), v.check(isQualifiedName, 'a label name such as "example.org/name"'));
const LabelValue = v.pipe(
  v.string('a string'),
  v.check(isLabelValue, 'at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends'),
);

export const LABELS = foreignRecord(LabelKey, LabelValue, 'an object of strings');

/** Metadata that a user may write; the datastore adds `resourceVersion` and the like. */
export const METADATA_FIELDS = {
  name: v.pipe(v.string(NAME), v.check(isDnsSubdomain, NAME)),
  namespace: v.optional(v.pipe(v.string(NAMESPACE), v.check(isDnsLabel, NAMESPACE))),
  labels: v.optional(LABELS),
  annotations: v.optional(
    v.pipe(
      foreignRecord(LabelKey, v.string('a string'), 'an object of strings'),
      v.check(
        (all) => Object.entries(all).flat().join('').length <= LARGEST_ANNOTATIONS,
        'at most 256 KiB for all annotations',
      ),
    ),
  ),
  uid: v.optional(v.string('a string')),
  creationTimestamp: v.nullish(v.string('a string')),
  resourceVersion: v.optional(v.string('a string')),
};

/** Metadata fields that the orchestrator's tools write; they are accepted and dropped. */
export const DROPPED_METADATA = [
  'generation',
  'managedFields',
  'selfLink',
  'finalizers',
  'ownerReferences',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
];

/** Reports whether the orchestrator accepts the text as the key of a label. */
export function isQualifiedName(text: string): boolean {
  const parts = text.split('/');
  const name = parts.at(-1) ?? '';
  const prefix = parts.length === 2 ? parts[0] : undefined;
  return parts.length <= 2 && name !== '' && isLabelValue(name) && (prefix === undefined || isDnsSubdomain(prefix));
}

/** Reports whether the orchestrator accepts the text as the value of a label. */
export function isLabelValue(text: string): boolean {
  return text === '' || (text.length <= 63 && /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/.test(text));
}
