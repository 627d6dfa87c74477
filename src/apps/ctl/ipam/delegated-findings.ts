import { visibleText } from '../../../base/visible-text.ts';
import { interfaceKey } from '../../../model/names.ts';
import { attachmentOf } from '../../../model/workload-endpoint.ts';
import { formatAddress } from '../../../net/address.ts';
import { type IpamFinding, ipamFinding, type IpamState } from './finding.ts';

/** Finds addresses that other address managers hold for attachments of this machine that have ended, and their endpoints. */
export function delegatedFindings(state: IpamState): readonly IpamFinding[] {
  return [...leakedReservations(state), ...endpointsWithoutInterface(state)];
}

function leakedReservations({ local }: IpamState): readonly IpamFinding[] {
  const { networks, leaked } = local?.delegated ?? { networks: [], leaked: [] };
  return leaked.flatMap((each): IpamFinding[] => {
    const network = networks.find(({ name }) => name === each.network);
    if (network === undefined) return [];
    const subject = each.addresses.map(formatAddress).join(' and ');
    const pod = each.pod === undefined ? '' : ` of pod "${each.pod}"`;
    const found = visibleText(
      `address ${subject}: ${network.manager} holds it in network "${network.name}" for container "${each.containerId}"${pod}, whose interface does not exist on this node`,
    );
    return [
      ipamFinding('leaked-reservation', { subject, found, repair: { kind: 'end-attachment', network, leaked: each } }),
    ];
  });
}

/** host-local has a file before there is an endpoint: without one, and without a record, no ADD of the attachment is in progress. */
function endpointsWithoutInterface({ local, endpoints }: IpamState): readonly IpamFinding[] {
  if (local === undefined) return [];
  const { networks, leaked, reserved } = local.delegated;
  const ended = new Set(leaked.map(interfaceKey));
  const linked = new Set(local.links.flatMap(({ owner }) => (owner === undefined ? [] : interfaceKey(owner))));
  const names = new Set(local.links.map(({ name }) => name));
  return endpoints.flatMap((before): IpamFinding[] => {
    const { metadata, spec } = before.value;
    const network = networks.find(({ name, manager }) => name === spec.network && manager === spec.ipam);
    const key = interfaceKey(attachmentOf(before.value));
    if (network === undefined || !local.nodes.has(spec.node) || linked.has(key) || names.has(spec.interfaceName))
      return [];
    const hasNoTrace = network.manager === 'host-local' && !reserved.has(key) && !local.attached.has(key);
    if (!ended.has(key) && !hasNoTrace) return [];
    const subject = `${metadata.namespace ?? 'default'}/${metadata.name}`;
    const found = `endpoint ${subject} on node ${spec.node}: interface "${spec.interfaceName}" does not exist on this node`;
    const repair = { kind: 'delete-endpoint', before } as const;
    return [ipamFinding('endpoint-without-interface', { subject, found: visibleText(found), repair })];
  });
}
