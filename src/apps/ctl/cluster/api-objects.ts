import type { ClusterObject } from '../../../install/cluster/objects.ts';
import { isDeepStrictEqual } from 'node:util';
import { NetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import { editLine, manifestIdentity, manifestKey } from '../../../install/cluster/edits/edit.ts';
import { findEdits } from '../../../install/cluster/edits/find-edits.ts';
import { KINDS } from '../../../model/kinds.ts';
import type { ApiAnswer } from '../../../kube/answers.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import type { Collection } from '../../../kube/paths.ts';

/** The name under which the API notes what the tool has written. */
export const MANAGER = 'netplugctl';

const BUILT_IN: Readonly<Record<string, string>> = {
  Namespace: 'namespaces',
  ServiceAccount: 'serviceaccounts',
  ConfigMap: 'configmaps',
  Secret: 'secrets',
  Service: 'services',
  Pod: 'pods',
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  Role: 'roles',
  RoleBinding: 'rolebindings',
  DaemonSet: 'daemonsets',
  Deployment: 'deployments',
  CustomResourceDefinition: 'customresourcedefinitions',
};

export interface Located {
  readonly collection: Collection;
  readonly name: string;
  /** For messages, such as `DaemonSet netplug-system/netplug-node`. */
  readonly key: string;
}

/** Returns where the API has the object. */
export function locate(object: ClusterObject): Located {
  const identity = manifestIdentity(object);
  const apiVersion = typeof object['apiVersion'] === 'string' ? object['apiVersion'] : '';
  if (identity === undefined) throw new Error(`no object: ${JSON.stringify(object).slice(0, 80)}`);
  const { kind, name, namespace } = identity;
  const [group, version] = apiVersion.includes('/') ? (apiVersion.split('/') as [string, string]) : ['', apiVersion];
  const own = Object.hasOwn(KINDS, kind) ? KINDS[kind as keyof typeof KINDS].plural : undefined;
  const plural = BUILT_IN[kind] ?? own ?? `${kind.toLowerCase()}s`;
  const place = namespace === '' ? {} : { namespace };
  return { collection: { group, version, plural, ...place }, name, key: manifestKey(identity) };
}

export type ObjectState = 'missing' | 'same' | 'different';

export interface ComparedObject {
  readonly state: ObjectState;
  /** Lines for the user about each field that differs. */
  readonly changes: readonly string[];
}

/**
 * Compares an object with that of the cluster by a dry run of its application. `missing` as well when its namespace or its kind
 * does not exist yet.
 */
export async function compareObject(api: OrchApi, object: ClusterObject, signal: AbortSignal): Promise<ComparedObject> {
  const live = await findObject(api, locate(object), signal);
  if (live === undefined) return { state: 'missing', changes: [] };
  const after = await applyObject(api, { object, mode: 'dry-run' }, signal);
  const [was, is] = [objectContent(live), objectContent(after)];
  if (isDeepStrictEqual(was, is)) return { state: 'same', changes: [] };
  return { state: 'different', changes: findEdits([was], [is]).map((edit) => editLine(edit)) };
}

/** Returns the object; undefined when it, or its kind, does not exist. @throws store/* */
export async function findObject(
  api: OrchApi,
  { collection, name }: Pick<Located, 'collection' | 'name'>,
  signal: AbortSignal,
): Promise<ApiObject | undefined> {
  const answer = await api.get(collection, name, signal);
  return answer.outcome === 'ok' ? answer.value : undefined;
}

/** Applies the object on the server with forced conflicts, or makes a dry run of that. @throws install/refused, store/* */
export async function applyObject(
  api: OrchApi,
  { object, mode }: { readonly object: ClusterObject; readonly mode?: Mode },
  signal: AbortSignal,
): Promise<ApiObject> {
  const { collection, name, key } = locate(object);
  const which = { collection, name, ...(mode === undefined ? {} : { mode }) };
  const answer = await api.patch(which, { kind: 'apply', body: object, manager: MANAGER, force: true }, signal);
  if (answer.outcome === 'ok') return answer.value;
  throw new NetplugError('install/refused', `Cannot apply ${key}: ${answer.message}`, {
    hint: 'Correct what the API server names, and run the command again',
    facts: { object: key },
  });
}

/** Deletes the object and reports whether it existed. @throws install/refused, store/* */
export async function deleteObject(
  api: OrchApi,
  { collection, name, key }: Located,
  signal: AbortSignal,
): Promise<boolean> {
  const answer: ApiAnswer<undefined> = await api.delete({ collection, name, preconditions: {} }, signal);
  if (answer.outcome === 'ok') return true;
  if (answer.outcome === 'not-found') return false;
  throw new NetplugError('install/refused', `Cannot delete ${key}: ${answer.message}`, {
    hint: 'Correct what the API server names, and run the command again',
    facts: { object: key },
  });
}

/** Returns what of an object users write. */
export function objectContent({ metadata, ...rest }: ApiObject): unknown {
  const { managedFields: _, resourceVersion: _version, generation: _generation, ...kept } = metadata as ClusterObject;
  const { status: _status, ...content } = rest as ClusterObject;
  return { ...content, metadata: kept };
}
