import { ownValue } from '../base/own-value.ts';
import { readAnnotations } from '../model/annotation-keys.ts';
import { REDIRECTOR, SIDECAR } from '../model/declared-sidecar.ts';
import { MOST_POD_PORTS } from '../model/pod.ts';
import { knownLabels } from '../model/selector.ts';
import type { ApiObject } from './objects.ts';
import { type Collection, ENDPOINT_SLICES, KUBERNETES_POLICIES, NAMESPACES, PODS, SERVICE_ACCOUNTS } from './paths.ts';
import { isRecord } from '../model/read-schema.ts';

/** Kinds that tenants write. What they write into annotations must not decide how much memory a process takes. */
const WRITTEN_BY_TENANTS = new Set(
  [PODS, NAMESPACES, SERVICE_ACCOUNTS, KUBERNETES_POLICIES, ENDPOINT_SLICES].map(nameOf),
);
const POD_SPEC = ['nodeName', 'hostNetwork', 'serviceAccountName'];
const POD_STATUS = ['phase', 'podIP', 'podIPs'];

/**
 * Returns the part of an object that is worth caching: without the managers of its fields, which are often longer than the
 * fields, of a kind that tenants write only the annotations that netplug reads and a bounded number of labels, and of a pod only
 * what netplug reads.
 */
export function trimmedObject(collection: Collection, { metadata, ...object }: ApiObject): ApiObject {
  const { managedFields: _, annotations, ...rest } = metadata;
  const isOfTenants = WRITTEN_BY_TENANTS.has(nameOf(collection));
  const read = isOfTenants ? readAnnotations(annotations) : annotations;
  const isBare = read === undefined || (isOfTenants && Object.keys(read ?? {}).length === 0);
  const labelled = isOfTenants && rest.labels ? { ...rest, labels: knownLabels(rest.labels) } : rest;
  const kept = isBare ? labelled : { ...labelled, annotations: read };
  if (nameOf(collection) !== nameOf(PODS)) return { metadata: kept, ...object };
  const { spec, status } = object as { readonly spec?: unknown; readonly status?: unknown };
  // One more than count, so that the pod is known to have too many.
  let room = MOST_POD_PORTS + 1;
  const containers = (name: string): object => {
    const listed = isRecord(spec) ? ownValue(spec, name) : undefined;
    if (!Array.isArray(listed)) return {};
    const trimmed = listed.flatMap((container) => {
      const { ports, ...kept } = trimmedContainer(container, room);
      const ofMesh = meshPartOf(container);
      // Of init containers, sidecars serve.
      const isServing = name !== 'initContainers' || kept.restartPolicy === 'Always';
      if (!isServing) return ofMesh === undefined ? [] : [ofMesh];
      room -= ports.length;
      return ports.length === 0 && ofMesh === undefined ? [] : [{ ...kept, ports, ...ofMesh }];
    });
    return { [name]: trimmed };
  };
  return {
    metadata: kept,
    spec: { ...pick(spec, POD_SPEC), ...containers('initContainers'), ...containers('containers') },
    status: pick(status, POD_STATUS),
  };
}

/** Containers that tell what the proxy of the pod is handed. */
const OF_MESH: readonly unknown[] = [SIDECAR, REDIRECTOR];
const MOST_ARGS = 64;
const MOST_TEXT = 1024;
const TOO_LONG = 'too long';

/** Returns what is read of a container of the mesh. What is too long becomes what cannot be read, so that the proxy is handed nothing. */
function meshPartOf(container: unknown): object | undefined {
  const { name, image, args } = pick(container, ['name', 'image', 'args']) as Readonly<Record<string, unknown>>;
  if (!OF_MESH.includes(name)) return undefined;
  const kept = (text: unknown): string => (typeof text === 'string' && text.length <= MOST_TEXT ? text : TOO_LONG);
  const listed: readonly unknown[] = Array.isArray(args) ? args : [];
  return { name, image: kept(image), args: listed.length > MOST_ARGS ? ['-d', TOO_LONG] : listed.map(kept) };
}

interface TrimmedContainer {
  readonly restartPolicy?: unknown;
  readonly ports: readonly unknown[];
}

/** Rules know ports by name, and host ports. Users may declare any number of others. */
function trimmedContainer(container: unknown, room: number): TrimmedContainer {
  const { ports, ...kept } = pick(container, ['restartPolicy', 'ports']) as Partial<
    Record<keyof TrimmedContainer, unknown>
  >;
  if (!Array.isArray(ports)) return { ...kept, ports: [] };
  const isRead = (port: unknown): boolean =>
    isRecord(port) && (port['name'] !== undefined || port['hostPort'] !== undefined);
  return { ...kept, ports: ports.filter(isRead).slice(0, room) };
}

function nameOf({ plural, group }: Collection): string {
  return `${plural}.${group}`;
}

function pick(from: unknown, names: readonly string[]): object {
  if (!isRecord(from)) return {};
  return Object.fromEntries(
    names.flatMap((name) => (ownValue(from, name) === undefined ? [] : [[name, ownValue(from, name)]])),
  );
}
