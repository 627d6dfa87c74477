import { ownValue } from '../base/own-value.ts';
import type { ApiObject } from './objects.ts';
import { type Collection, PODS } from './paths.ts';

const POD_SPEC = ['nodeName', 'hostNetwork', 'serviceAccountName'];
const CONTAINER = ['restartPolicy', 'ports'];
const POD_STATUS = ['phase', 'podIP', 'podIPs'];

/**
 * Returns the part of an object that is worth caching: without the managers of its fields, which are often longer than the
 * fields, and of a pod only what netplug reads.
 */
export function trimmedObject({ plural, group }: Collection, { metadata, ...object }: ApiObject): ApiObject {
  const { managedFields: _, ...kept } = metadata;
  if (plural !== PODS.plural || group !== PODS.group) return { metadata: kept, ...object };
  const { spec, status } = object as { readonly spec?: unknown; readonly status?: unknown };
  const containers = (name: string): object => {
    const listed = isRecord(spec) ? ownValue(spec, name) : undefined;
    return Array.isArray(listed) ? { [name]: listed.map((container) => pick(container, CONTAINER)) } : {};
  };
  return {
    metadata: kept,
    spec: { ...pick(spec, POD_SPEC), ...containers('containers'), ...containers('initContainers') },
    status: pick(status, POD_STATUS),
  };
}

function pick(from: unknown, names: readonly string[]): object {
  if (!isRecord(from)) return {};
  return Object.fromEntries(
    names.flatMap((name) => (ownValue(from, name) === undefined ? [] : [[name, ownValue(from, name)]])),
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
