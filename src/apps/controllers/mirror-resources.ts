import { isDeepStrictEqual } from 'node:util';
import { decodeRecordedResource } from '../../datastore/stored-resource.ts';
import type { DerivedFrom, FollowedRecord, ResourceRecord } from '../../datastore/follow.ts';
import { resourceChanged } from '../../datastore/resource-errors.ts';
import { KUBERNETES_POLICIES, NAMESPACES, SERVICE_ACCOUNTS, type Collection } from '../../kube/paths.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { isolatingNetworkPolicy } from '../../model/from-kubernetes/network-policy.ts';
import { derivedOriginal, isDerivedName, type Original } from '../../model/policy-names.ts';
import { type ResourceId, showResourceId } from '../../model/resource-id.ts';
import type { Controller, ControllerPorts } from './controller.ts';
import { keyedController, type KeyPlan } from './keyed-controller.ts';
import type { Feed } from './observed.ts';
import { applyResourceWrite, isOwn, OWN_LABELS, type ResourceWrite } from './resource-write.ts';

const COLLECTIONS: Readonly<Record<DerivedFrom, Collection>> = {
  NetworkPolicy: KUBERNETES_POLICIES,
  Namespace: NAMESPACES,
  ServiceAccount: SERVICE_ACCOUNTS,
};

/** A request to etcd has at most 1.5 MiB unless configured. */
const MOST_BYTES = 1_400_000;

/** Keeps a resource of the kind for each object of the orchestrator that one stands for. */
export function mirrorController(
  name: string,
  kind: 'NetworkPolicy' | 'Profile',
  from: readonly DerivedFrom[],
): Controller {
  const copies: Feed = { side: 'datastore', query: { kind: 'resources', of: kind } };
  const originals = from.map((each): Feed => ({
    side: 'orchestrator',
    query: { kind: 'derived-resources', from: each },
  }));
  return keyedController<ResourceWrite>({
    name,
    feeds: [copies, ...originals],
    keysOf: ({ id, before, after }) => (isDerived(after ?? before) ? [id] : []),
    plan: (key, observed) =>
      planCopy(
        originals.map((feed) => resourceIn(observed.find(feed, key))).find((found) => found !== undefined),
        resourceIn(observed.find(copies, key)),
      ),
    apply: applyToCopy,
  });
}

/** Returns what makes the copy the same as the original. Pure. */
export function planCopy(
  original: ResourceRecord | undefined,
  copy: ResourceRecord | undefined,
): KeyPlan<ResourceWrite> {
  const present = copy?.value;
  if (original === undefined) {
    if (copy === undefined || present === undefined || !isOwn(present)) return { changes: [] };
    return { changes: [{ kind: 'delete', which: copy.which, version: copy.version }] };
  }
  const isTooLarge = original.value !== undefined && sizeOf(original.value) > MOST_BYTES;
  const problems = [
    ...(original.problem === undefined ? [] : [original.problem]),
    ...(isTooLarge ? [tooLargeProblem(original.which)] : []),
  ];
  if (copy !== undefined && (present === undefined || !isOwn(present)))
    return { changes: [], problems: [...problems, foreignProblem(original.which, copy)] };
  const wanted = wantedCopy(original, isTooLarge);
  if (typeof wanted === 'string') return { changes: [], problems: [...problems, wanted] };
  if (present === undefined) return { changes: [{ kind: 'create', resource: wanted }], problems };
  if (copy?.problem === undefined && isSameContent(present, wanted)) return { changes: [], problems };
  const metadata = { ...wanted.metadata, resourceVersion: copy?.version ?? '' };
  return { changes: [{ kind: 'update', resource: { ...wanted, metadata } as AnyResource }], problems };
}

function foreignProblem(which: ResourceId, copy: ResourceRecord): string {
  const why = copy.value === undefined ? 'it cannot be read' : `it has not the label ${labelText()}`;
  return `${showResourceId(which)} is left as it is, because ${why}: delete it to have it made from the orchestrator's object`;
}

function labelText(): string {
  return Object.entries(OWN_LABELS)
    .map((label) => label.join('='))
    .join(',');
}

/** Returns the copy as it is read back from the datastore, or why it could not be read back. */
function wantedCopy({ which, value }: ResourceRecord, isTooLarge: boolean): AnyResource | string {
  const whole = value ?? isolatingNetworkPolicy(which.name, which.namespace);
  const meant = isTooLarge ? withoutRules(whole) : whole;
  const { name, namespace } = meant.metadata;
  const metadata = { name, ...(namespace === undefined ? {} : { namespace }), labels: OWN_LABELS };
  const decoded = decodeRecordedResource(which, JSON.parse(JSON.stringify({ ...meant, metadata })));
  return typeof decoded === 'string' ? `${showResourceId(which)} cannot be stored: ${decoded}` : decoded;
}

/** Returns the policy without its rules, which isolates what it selects. */
function withoutRules(resource: AnyResource): AnyResource {
  if (resource.kind !== 'NetworkPolicy') return resource;
  return { ...resource, spec: { ...resource.spec, ingress: [], egress: [] } };
}

function tooLargeProblem(which: ResourceId): string {
  return `${showResourceId(which)} is too large to be stored (more than ${String(MOST_BYTES)} bytes as JSON): its copy has no rules, so what it selects is isolated; split it into several policies`;
}

function sizeOf(resource: AnyResource): number {
  return Buffer.byteLength(JSON.stringify(resource));
}

function isSameContent(one: AnyResource, other: AnyResource): boolean {
  const contentOf = ({ spec, metadata }: AnyResource): unknown => [
    spec,
    metadata.labels ?? {},
    metadata.annotations ?? {},
  ];
  return isDeepStrictEqual(contentOf(one), contentOf(other));
}

/** Deletes only after the API has said itself that the original is gone: a list may be of another moment, or another cluster. */
async function applyToCopy(change: ResourceWrite, { store, api }: ControllerPorts, signal: AbortSignal): Promise<void> {
  if (change.kind === 'delete') {
    const original = derivedOriginal(change.which);
    if (original === undefined || !(await isGone(api, original, signal))) throw resourceChanged(change.which);
  }
  await applyResourceWrite(store, change, signal);
}

async function isGone(
  api: ControllerPorts['api'],
  { from, namespace, name }: Original,
  signal: AbortSignal,
): Promise<boolean> {
  const collection = { ...COLLECTIONS[from], ...(namespace === undefined ? {} : { namespace }) };
  return (await api.get(collection, name, signal)).outcome === 'not-found';
}

function isDerived(record: FollowedRecord | undefined): boolean {
  return record?.kind === 'resource' && isDerivedName(record.which.kind, record.which.name);
}

function resourceIn(record: FollowedRecord | undefined): ResourceRecord | undefined {
  return record?.kind === 'resource' ? record : undefined;
}
