import { tryParseJson } from '../../base/try-parse-json.ts';
import { decodeBlock } from '../../model/ip-block-codec.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { ResourceRecord } from '../follow.ts';
import { decodeEndpoint, decodeFollowedResource, decodeRecordedResource } from '../stored-resource.ts';
import type { Claim, Stored } from '../allocation-store.ts';
import type { KeyValue } from '../../../proto/gen/etcd.ts';
import { cidrOfKey, keyOrNone, type Keys } from './keys.ts';
import { decodeText } from './requests.ts';
import { Unreadable } from '../unreadable.ts';

export function unreadableRecord(key: string, why: string): Unreadable {
  return new Unreadable(
    `Cannot understand the record "${key}": ${why}`,
    'Repair or remove the record in the datastore',
  );
}

/** Reads block records, which must lie where the layout puts them. */
export function blockReader(keys: Keys): (kv: KeyValue) => Stored<IpBlock> | Unreadable {
  return (kv) => {
    const key = decodeText(kv.key);
    const decoded = decodeBlock(jsonOf(kv));
    if ('problems' in decoded) return unreadableRecord(key, decoded.problems.join('; '));
    const { block } = decoded;
    if (keyOrNone(() => keys.block(block.cidr, block.node)) !== key)
      return unreadableRecord(key, 'its CIDR or owner belongs elsewhere');
    return { value: block, version: versionOf(kv) };
  };
}

export function endpointReader(keys: Keys): (kv: KeyValue) => Stored<WorkloadEndpoint> | Unreadable {
  return (kv) => {
    const key = decodeText(kv.key);
    const endpoint = decodeEndpoint(jsonOf(kv));
    if (typeof endpoint === 'string') return unreadableRecord(key, endpoint);
    if (keyOrNone(() => keys.endpoint(endpointIdOf(endpoint))) !== key)
      return unreadableRecord(key, 'its node, namespace or name belongs elsewhere');
    return { value: endpoint, version: versionOf(kv) };
  };
}

export function resourceReader<K extends ResourceKind>(
  keys: Keys,
  kind: K,
): (kv: KeyValue) => { readonly resource: ResourceOf<K>; readonly version: string } | Unreadable {
  return (kv) => {
    const key = decodeText(kv.key);
    const which = keys.resourceAt(key, kind);
    if (which === undefined) return unreadableRecord(key, `no ${kind} has such a key`);
    const decoded = decodeRecordedResource(which, jsonOf(kv));
    if (typeof decoded === 'string') return unreadableRecord(key, decoded);
    const version = versionOf(kv);
    return { resource: withVersion<ResourceOf<K>>(decoded, version), version };
  };
}

/** A key of a resource as a followed record; a key that none of our resources has stands for itself. */
export function resourceRecord(
  { keys, kind, query }: { readonly keys: Keys; readonly kind: ResourceKind; readonly query: number },
  kv: KeyValue,
  isThere: boolean,
): ResourceRecord {
  const key = decodeText(kv.key);
  const which = keys.resourceAt(key, kind);
  const version = versionOf(kv);
  const base = { kind: 'resource', query, key, version, which: which ?? { kind, name: key } } as const;
  if (!isThere) return base;
  if (which === undefined) return { ...base, problem: unreadableRecord(key, `no ${kind} has such a key`).problem };
  const { value, problem } = decodeFollowedResource(which, jsonOf(kv));
  return {
    ...base,
    ...(value === undefined ? {} : { value: withVersion(value, version) }),
    ...(problem === undefined ? {} : { problem: unreadableRecord(key, problem).problem }),
  };
}

export function withVersion<R extends AnyResource>(resource: R, version: string): R {
  return { ...resource, metadata: { ...resource.metadata, resourceVersion: version } };
}

export function readClaim(kv: KeyValue): Claim | Unreadable {
  const key = decodeText(kv.key);
  const cidr = cidrOfKey(key);
  return cidr === undefined ? unreadableRecord(key, 'its key names no CIDR') : { cidr, node: claimOwner(kv) };
}

function claimOwner(kv: KeyValue): NodeName | undefined {
  const owner = decodeText(kv.value);
  // Only netplug writes these keys, and only with node names.
  return owner === '' ? undefined : (owner as NodeName);
}

export function versionOf(kv: KeyValue): string {
  return String(kv.modRevision);
}

/** Undefined when the value is not JSON: no decoder accepts that. */
export function jsonOf(kv: KeyValue): unknown {
  return tryParseJson(decodeText(kv.value));
}
