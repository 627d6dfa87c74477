import { at } from '../../../base/problem.ts';
import type { PolicyRecord } from '../../../cache/policy-records.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { unversioned } from '../../../datastore/stored-resource.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import type { KubernetesObject } from '../../../model/from-kubernetes/kubernetes-object.ts';
import { fromKubernetesPolicy } from '../../../model/from-kubernetes/network-policy.ts';
import { fromNamespace, fromServiceAccount } from '../../../model/from-kubernetes/profiles.ts';
import type { AnyResource, ResourceKind } from '../../../model/kinds.ts';
import { kubernetesPolicyName } from '../../../model/policy-names.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { type ResourceId, resourceIdOf } from '../../../model/resource-id.ts';
import type { PolicyChange } from '../../../policy/policy-change.ts';
import { type DocumentSource, type PlacedProblem, readDocuments, refuseProblems } from '../documents.ts';
import { belongsToOthers } from '../lint/lint-objects.ts';
import { mergeResource, sameResource } from '../resources/merge-resource.ts';
import { itemsOf, noDocument, placedBehind, WRITES_NOTHING } from '../resources/resource-files.ts';

/** Kinds of netplug that decide about traffic of pods and nodes. */
const POLICY_KINDS: readonly ResourceKind[] = [
  'NetworkPolicy',
  'GlobalNetworkPolicy',
  'NetworkSet',
  'GlobalNetworkSet',
  'Profile',
  'HostEndpoint',
];

/** A resource of a file, by what it means for policies. */
export interface WrittenChange {
  /** Name as users write it, such as `NetworkPolicy shop/web`. */
  readonly shown: string;
  readonly which: ResourceId;
  readonly value: AnyResource;
  /** Written as an object of Kubernetes, whose labels are merged with those that it has. */
  readonly origin: 'netplug' | 'Kubernetes';
}

export interface WrittenChanges {
  readonly changes: readonly WrittenChange[];
  /** A sentence for each document without meaning for policies. */
  readonly notes: readonly string[];
}

/** Reads what the documents mean for policies. @throws resource/invalid, cli/usage when there is no document */
export function readWrittenChanges(sources: readonly DocumentSource[], namespace: string | undefined): WrittenChanges {
  const problems: PlacedProblem[] = [];
  const changes: WrittenChange[] = [];
  const notes: string[] = [];
  for (const source of sources) {
    const read = readDocuments(source, 'resource/invalid');
    problems.push(...read.problems);
    for (const { value, placeOf } of read.documents) {
      for (const { path, raw } of itemsOf(value)) {
        const item = readItem(raw, namespace);
        if ('change' in item) changes.push(item.change);
        else if ('note' in item) notes.push(`${placeOf(path)}: ${item.note}`);
        else problems.push(...placedBehind(path, item.problems, placeOf));
      }
    }
  }
  refuseProblems(problems, WRITES_NOTHING);
  if (changes.length === 0 && notes.length === 0) throw noDocument(sources);
  return { changes, notes };
}

type Problems = Extract<ReturnType<typeof decodeResource>, { problems: unknown }>;
type ReadItem = { readonly change: WrittenChange } | { readonly note: string } | Problems;

function readItem(raw: unknown, namespace: string | undefined): ReadItem {
  if (isRecord(raw) && belongsToOthers(raw['apiVersion'])) return readForeign(raw, namespace);
  const decoded = decodeResource(raw, namespace === undefined ? {} : { namespace });
  if ('problems' in decoded) return decoded;
  const { resource } = decoded;
  const which = resourceIdOf(resource);
  const shown = `${resource.kind} ${nameOf(which)}`;
  if (!POLICY_KINDS.includes(resource.kind)) return { note: `${shown} does not change what pods reach` };
  return { change: { shown, which, value: resource, origin: 'netplug' } };
}

function readForeign(raw: Readonly<Record<string, unknown>>, otherwise: string | undefined): ReadItem {
  const { apiVersion, kind, metadata } = raw;
  const type = `${String(apiVersion)} ${String(kind)}`;
  const name = isRecord(metadata) ? metadata['name'] : undefined;
  if (!['networking.k8s.io/v1 NetworkPolicy', 'v1 Namespace', 'v1 ServiceAccount'].includes(type)) {
    return { note: `${String(kind)} of ${String(apiVersion)} is not considered` };
  }
  if (!isRecord(metadata) || typeof name !== 'string' || name === '') return invalid('metadata.name', 'missing');
  const { namespace = otherwise ?? 'default', labels } = metadata;
  if (typeof namespace !== 'string') return invalid('metadata.namespace', 'is no text');
  if (labels !== undefined && labels !== null && !areLabels(labels)) return invalid('metadata.labels', 'are no labels');
  const object: KubernetesObject = { ...raw, metadata: { name, namespace, labels } };
  if (kind === 'NetworkPolicy') {
    const { value, problems } = fromKubernetesPolicy(object);
    const [problem] = problems;
    if (value === undefined || problem !== undefined) return invalid('spec', problem ?? 'cannot be used');
    const which = { kind, namespace, name: kubernetesPolicyName(name) } as const;
    return { change: { shown: `Kubernetes NetworkPolicy ${namespace}/${name}`, which, value, origin: 'Kubernetes' } };
  }
  const value = kind === 'Namespace' ? fromNamespace(object) : fromServiceAccount(object);
  const shown = kind === 'Namespace' ? `Namespace ${name}` : `ServiceAccount ${namespace}/${name}`;
  return { change: { shown, which: { kind: 'Profile', name: value.metadata.name }, value, origin: 'Kubernetes' } };
}

function areLabels(labels: unknown): labels is Readonly<Record<string, string>> {
  return isRecord(labels) && Object.values(labels).every((text) => typeof text === 'string');
}

function invalid(path: string, message: string): Problems {
  return { problems: [{ path: at('', ...path.split('.')), message, code: 'resource/invalid' }] };
}

function nameOf({ namespace, name }: ResourceId): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

export interface PlannedChange {
  readonly shown: string;
  readonly action: 'create' | 'change' | 'delete' | 'none';
  readonly change: Extract<PolicyChange, { kind: 'resource' }>;
}

/** Returns what applying or deleting the resources changes of the present records. */
export async function planChanges(
  { changes }: WrittenChanges,
  verb: 'apply' | 'delete',
  present: { readonly store: ResourceStore; readonly records: readonly PolicyRecord[]; readonly signal: AbortSignal },
): Promise<readonly PlannedChange[]> {
  const planned: PlannedChange[] = [];
  for (const { shown, which, value, origin } of changes) {
    const stored =
      origin === 'netplug'
        ? await present.store.findResource(which, present.signal)
        : presentValue(present.records, which);
    if (verb === 'delete') {
      if (stored !== undefined) planned.push({ shown, action: 'delete', change: { kind: 'resource', which } });
      continue;
    }
    const next = stored === undefined ? value : merged(stored, value, origin);
    planned.push({ shown, action: actionOf(stored, next), change: { kind: 'resource', which, value: next } });
  }
  return planned;
}

function actionOf(stored: AnyResource | undefined, next: AnyResource): PlannedChange['action'] {
  if (stored === undefined) return 'create';
  return sameResource(unversioned(stored), unversioned(next)) ? 'none' : 'change';
}

function presentValue(records: readonly PolicyRecord[], which: ResourceId): AnyResource | undefined {
  const record = records.findLast(
    (each) => each.kind === 'resource' && each.which.kind === which.kind && nameOf(each.which) === nameOf(which),
  );
  return record?.kind === 'resource' ? record.value : undefined;
}

function merged(stored: AnyResource, value: AnyResource, origin: WrittenChange['origin']): AnyResource {
  if (origin === 'netplug') return mergeResource(stored, value, 'keeps-labels');
  if (stored.kind !== 'Profile' || value.kind !== 'Profile') return value;
  // Applying a Namespace keeps labels that the file omits.
  const labelsToApply = { ...stored.spec.labelsToApply, ...value.spec.labelsToApply };
  return { ...value, spec: { ...value.spec, labelsToApply } };
}
