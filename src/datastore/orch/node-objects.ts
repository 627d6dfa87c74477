import * as v from 'valibot';
import type { Node, NodeSpec } from '../../model/node.ts';
import { API_VERSION, type Metadata } from '../../model/resource.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { podCidrsOf } from '../../kube/read-facts.ts';
import { tryParseAddress } from '../../net/address.ts';
import { formatCidr } from '../../net/cidr.ts';
import { readNodeAnnotations } from './node-annotations.ts';

const nodeStatus = v.looseObject({
  addresses: v.nullish(v.array(v.looseObject({ type: v.string(), address: v.string() }))),
});

/** Returns the Node of netplug for one of the orchestrator: metadata, addresses, pod CIDRs, and what the annotations say. */
export function nodeFromObject(object: ApiObject, { annotations = {}, ...metadata }: Metadata): Node {
  const read = v.safeParse(nodeStatus, object['status'] ?? {});
  const addresses = (read.success ? (read.output.addresses ?? []) : []).flatMap(
    ({ type, address }): NonNullable<NodeSpec['addresses']> =>
      (type === 'InternalIP' || type === 'ExternalIP') && tryParseAddress(address) !== undefined
        ? [{ address, type }]
        : [],
  );
  const podCIDRs = podCidrsOf(object).map(formatCidr);
  const spec = {
    ...readNodeAnnotations(annotations).spec,
    ...(addresses.length === 0 ? {} : { addresses }),
    ...(podCIDRs.length === 0 ? {} : { podCIDRs }),
  };
  return { apiVersion: API_VERSION, kind: 'Node', metadata, spec };
}

/** Returns the problems of a node's unreadable parts, which are skipped. */
export function nodeProblems({ metadata }: ApiObject): readonly string[] {
  return readNodeAnnotations(metadata.annotations ?? {}).problems.map(
    (problem) => `Cannot understand Node "${metadata.name}": ${problem}`,
  );
}
