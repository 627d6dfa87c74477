import { never } from '../../base/errors.ts';
import { type ApiObject, objectKey } from '../../kube/objects.ts';
import {
  ALL_NAMES,
  ENDPOINT_SLICES,
  KUBERNETES_POLICIES,
  NAMESPACES,
  PODS,
  RUN_PODS,
  SERVICE_ACCOUNTS,
} from '../../kube/paths.ts';
import type { Collection } from '../../kube/paths.ts';
import { fromEndpointSlice } from '../../model/from-kubernetes/endpoint-slice.ts';
import { fromKubernetesPolicy } from '../../model/from-kubernetes/network-policy.ts';
import { fromPod } from '../../model/from-kubernetes/pod.ts';
import { fromNamespace, fromServiceAccount } from '../../model/from-kubernetes/profiles.ts';
import { kubernetesPolicyName } from '../../model/policy-names.ts';
import type { Profile } from '../../model/profile.ts';
import { decodedFrom, type DerivedFrom, type FollowedRecord } from '../follow.ts';
import { type Source, type Watched, watchedSource } from './source.ts';

/** Users and controllers write as much as fits into an object. */
const LARGE = { isCached: true, isPacked: true } as const;

/** Returns the watch of objects of the orchestrator that stand for resources. */
export function derivedSource(from: DerivedFrom, query: number): Source {
  switch (from) {
    case 'Namespace':
      return profileSource(NAMESPACES, fromNamespace, query);
    case 'ServiceAccount':
      return profileSource(SERVICE_ACCOUNTS, fromServiceAccount, query);
    case 'NetworkPolicy':
      return sourceOf({ collection: KUBERNETES_POLICIES, options: LARGE }, (object) => {
        const { name, namespace = 'default' } = object.metadata;
        const which = { kind: 'NetworkPolicy', namespace, name: kubernetesPolicyName(name) } as const;
        const base = { kind: 'resource', query, key: objectKey(object), version: '', which } as const;
        return [{ ...base, ...decodedFrom(fromKubernetesPolicy(object)) }];
      });
    default:
      return never(from);
  }
}

/** Returns the watch of the pods of all nodes. Their changes that do not concern policy leave the record as it is. */
export function podSource(query: number): Source {
  return sourceOf({ collection: PODS, options: RUN_PODS }, (pod) => {
    const converted = fromPod(pod);
    if (converted.value === undefined && converted.problems.length === 0) return [];
    return [{ kind: 'endpoint', query, key: objectKey(pod), version: '', ...decodedFrom(converted) }];
  });
}

export function endpointSliceSource(query: number): Source {
  return sourceOf({ collection: ENDPOINT_SLICES, options: LARGE }, (slice) => {
    const converted = fromEndpointSlice(slice);
    if (converted.value === undefined && converted.problems.length === 0) return [];
    return [{ kind: 'service', query, key: objectKey(slice), version: '', ...decodedFrom(converted) }];
  });
}

/** Returns a source of profiles, which asks for no more than the metadata of namespaces and service accounts. */
function profileSource(collection: Collection, convert: (object: ApiObject) => Profile, query: number): Source {
  const recordsIn: Watched['recordsIn'] = (object) => {
    const value = convert(object);
    const { name } = value.metadata;
    return [{ kind: 'resource', query, key: name, version: '', which: { kind: 'Profile', name }, value }];
  };
  return watchedSource({ collection, options: ALL_NAMES, recordsIn }, { canResume: true });
}

/** An object that becomes no record any more is not told apart from one that never was: such a watch cannot resume. */
function sourceOf(
  watched: Pick<Watched, 'collection' | 'options'>,
  recordsIn: (object: ApiObject) => readonly FollowedRecord[],
): Source {
  return watchedSource({ ...watched, recordsIn }, { canResume: false });
}
