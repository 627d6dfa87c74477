import { imageNames } from '../../../install/cluster/names.ts';
import type { ProbeImage } from '../../../install/cluster/probe-objects.ts';
import { settingsOf } from '../../../install/cluster/settings-of.ts';
import {
  CONTROLLERS_CONFIGURATION_NAME,
  type ControllersConfigurationSpec,
} from '../../../model/controllers-configuration.ts';
import { controllersSettings } from '../../../config/controllers-settings.ts';
import { holderOf } from '../../../model/ip-block.ts';
import { parseAddress } from '../../../net/address.ts';
import { installedSettings } from '../../../upgrade/cluster/installed-spec.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import { INSTALL_NAMESPACE } from '../../../install/cluster/objects.ts';
import type { PodState } from '../cluster/node-pods.ts';
import type { Proof } from '../cluster/prove-network.ts';
import type { UpgradeSession } from './open-upgrade.ts';

/** Returns the image of the release's tools, from where the cluster pulls its images. */
export function toolsImage(snapshot: ClusterSnapshot, release: string): ProbeImage {
  const { registry, imagePullSecrets = [] } = installedSettings(snapshot).spec;
  return { release, image: imageNames(release, registry).tools, pullSecrets: imagePullSecrets };
}

/** Returns what the network of a cluster must show: policy and addresses only where netplug is in charge of them. */
export async function proofOf(
  session: UpgradeSession,
  { snapshot, release }: { readonly snapshot: ClusterSnapshot; readonly release: string },
): Promise<Omit<Proof, 'nodes'>> {
  const { spec, circumstances } = installedSettings(snapshot);
  const { policy, ipam } = settingsOf(spec, { ...circumstances, release });
  return {
    image: toolsImage(snapshot, release),
    hasPolicy: policy && (await arePoliciesRead(session)),
    ...(ipam === 'netplug-ipam' ? { addressFaults: async (pods) => addressFaults(session, pods) } : {}),
  };
}

/** With etcd, NetworkPolicies are in force once a controller has copied them. */
async function arePoliciesRead({ store, datastore, context: { signal } }: UpgradeSession): Promise<boolean> {
  if (datastore.type !== 'kvv3') return true;
  const id = { kind: 'ControllersConfiguration', name: CONTROLLERS_CONFIGURATION_NAME } as const;
  const spec: ControllersConfigurationSpec | undefined = (await store.findResource(id, signal))?.spec;
  return controllersSettings({}, datastore.type, spec).controllers.has('policy');
}

/** Compares the addresses of pods with what the datastore has as their holders. */
async function addressFaults(
  { store, context: { signal } }: UpgradeSession,
  pods: readonly PodState[],
): Promise<readonly string[]> {
  const { blocks } = await store.listBlocks(signal);
  return pods.flatMap(({ name, addresses }) => {
    if (addresses.length === 0) return [`pod ${name} has none`];
    return addresses.flatMap((text) => {
      const address = parseAddress(text);
      const holder = blocks.map(({ value }) => holderOf(value, address)).find((found) => found !== undefined);
      if (holder === undefined) return [`the datastore does not know that pod ${name} has ${text}`];
      const isOwn = holder.pod === name && holder.namespace === INSTALL_NAMESPACE;
      return isOwn ? [] : [`pod ${name} has ${text}, which ${holder.namespace ?? ''}/${holder.pod ?? holder.id} holds`];
    });
  });
}
