import type { Store } from '../../../datastore/store.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { NamedAddress } from '../../../policy/reach/peer-classes.ts';
import { findCrossing, nodeAddresses } from './connection-ends.ts';
import { readNodePolicySettings } from './read-node-settings.ts';

/** Returns the addresses of all nodes, those of their tunnels included, with their host endpoints. */
export async function readNodeEnds(
  store: Store,
  view: PolicyView,
  signal: AbortSignal,
): Promise<readonly NamedAddress[]> {
  const { resources } = await store.listResources('Node', signal);
  const { openPorts } = await readNodePolicySettings(store, view, signal);
  return resources.flatMap((node) => {
    const { name } = node.metadata;
    const open = openPorts(name);
    return nodeAddresses(node).map((address): NamedAddress => {
      return {
        kind: 'node',
        name,
        address,
        hostEnd: (of) => {
          const { hostEndpoint: endpoint } = findCrossing(of, name, [address]);
          return endpoint === undefined ? undefined : { endpoint, open };
        },
      };
    });
  });
}
