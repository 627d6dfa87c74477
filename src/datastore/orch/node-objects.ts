import * as v from 'valibot';
import { API_VERSION, type Metadata } from '../../model/resource.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { podCidrsOf } from '../../kube/read-facts.ts';
import { formatCidr } from '../../net/cidr.ts';
import { readNodeAnnotations } from './node-annotations.ts';

const nodeStatus = v.looseObject({
  addresses: v.nullish(v.array(v.looseObject({ type: v.string(), address: v.string() }))),
});

/** The node as netplug sees it: name and labels, where others reach it, its pod CIDRs, and what its agent says of it. */
export function netplugNode(object: ApiObject, { annotations = {}, ...metadata }: Metadata): unknown {
  const read = v.safeParse(nodeStatus, object['status'] ?? {});
  const addresses = (read.success ? (read.output.addresses ?? []) : [])
    .filter(({ type }) => type === 'InternalIP' || type === 'ExternalIP')
    .map(({ type, address }) => ({ address, type }));
  const podCIDRs = podCidrsOf(object).map(formatCidr);
  const spec = {
    ...readNodeAnnotations(annotations).spec,
    ...(addresses.length === 0 ? {} : { addresses }),
    ...(podCIDRs.length === 0 ? {} : { podCIDRs }),
  };
  return { apiVersion: API_VERSION, kind: 'Node', metadata, spec };
}

/** What of a node is left out because nobody can understand it. */
export function nodeProblems({ metadata }: ApiObject): readonly string[] {
  return readNodeAnnotations(metadata.annotations ?? {}).problems.map(
    (problem) => `Cannot understand Node "${metadata.name}": ${problem}`,
  );
}
