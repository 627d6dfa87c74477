import { never } from '../../base/errors.ts';
import { servicePortText } from '../../model/service-endpoints.ts';
import { formatAddress } from '../../net/address.ts';
import { cidrContains, formatCidr } from '../../net/cidr.ts';
import type { PolicyView } from '../policy-view.ts';
import { contentsOf, type SetContent } from '../set-content.ts';
import type { PeerSelector, PolicyRule } from '../resolved-policy.ts';

/** What rules look up beside the packet: the sets of the kernel, but for guards, and accounts. */
export type FedContent =
  | Exclude<SetContent, { kind: 'guarded' }>
  | { readonly kind: 'accounts'; readonly selector: PeerSelector };

export function fedContentsOf(rules: readonly PolicyRule[]): readonly FedContent[] {
  const accounts = rules.flatMap(({ source: { accounts: selector } }) =>
    selector === undefined ? [] : [{ kind: 'accounts', selector } as const],
  );
  return [...contentsOf(rules).filter((content) => content.kind !== 'guarded'), ...accounts];
}

/** Returns the entries of the content as they are sent: networks, addresses with ports, or accounts. */
export function entriesOf(view: PolicyView, content: FedContent): readonly string[] {
  switch (content.kind) {
    case 'members':
      return view.membersOf(content.selector).map(formatCidr);
    case 'nets':
      // Tunnel addresses, each with an address of its node that is in the networks.
      return view.nodes.standInsFor(content.nets).flatMap(({ base }) => {
        const own = view.nodes.behind(base).find((each) => content.nets.some((net) => cidrContains(net, each)));
        return own === undefined ? [] : [`${formatAddress(base)} ${formatAddress(own)}`];
      });
    case 'named port':
      return view
        .namedPortsOf(content.name, content.protocol)
        .map(({ address, port }) => `${formatAddress(address)} ${String(port)}`);
    case 'service': {
      const { namespace, name } = content;
      return content.holds === 'addresses'
        ? view.services.addressesOf(namespace, name).map(formatAddress)
        : view.services.portsOf(namespace, name).map(servicePortText);
    }
    case 'accounts':
      return view.accountsOf(content.selector).map(({ namespace, name }) => `${namespace}/${name}`);
    default:
      return never(content);
  }
}
