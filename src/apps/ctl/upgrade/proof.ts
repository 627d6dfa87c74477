import type { Env } from '../../../config/environment.ts';
import { controllersSettings } from '../../../config/controllers-settings.ts';
import { AGENT_SET, imageNames, registryIn, SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { ProbeImage } from '../../../install/cluster/probe-objects.ts';
import { settingsOf } from '../../../install/cluster/settings-of.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { CONTROLLERS_CONFIGURATION_NAME } from '../../../model/controllers-configuration.ts';
import { holderOf } from '../../../model/ip-block.ts';
import { parseAddress } from '../../../net/address.ts';
import { installedSettings, pullSecretsIn } from '../../../upgrade/cluster/installed-spec.ts';
import { containersIn, findNamed, textIn, variableIn } from '../../../upgrade/cluster/objects-in.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { PodState } from '../../../kube/status/pod-state.ts';
import type { Proof } from '../cluster/prove-network.ts';
import type { UpgradeSession } from './open-upgrade.ts';

/** Returns the image of the target's tools, from where the agents of the target are pulled. */
export function toolsImage({ release, stages }: UpgradeTarget): ProbeImage {
  const agent = findNamed(
    stages.flatMap(({ objects }) => objects),
    'DaemonSet',
    AGENT_SET,
  );
  const [container = {}] = agent === undefined ? [] : containersIn(agent);
  return {
    release,
    image: imageNames(release, registryIn(textIn(container, 'image'))).tools,
    pullSecrets: pullSecretsIn(agent ?? {}),
  };
}

/** Returns what the network of a cluster must show: policy and addresses only where netplug is in charge of them. */
export async function proofOf(
  session: UpgradeSession,
  { snapshot, target }: { readonly snapshot: ClusterSnapshot; readonly target: UpgradeTarget },
): Promise<Omit<Proof, 'nodes'>> {
  const { spec, circumstances } = installedSettings(snapshot);
  const { cni, calicoNetwork } = settingsOf(spec, { ...circumstances, release: target.release }).spec;
  const [controllers = {}] = containersIn(findNamed(snapshot.objects, 'Deployment', CONTROLLERS) ?? {});
  const named = variableIn(controllers, 'ENABLED_CONTROLLERS');
  return {
    image: toolsImage(target),
    hasPolicy:
      calicoNetwork.policy === 'Enabled' &&
      (await arePoliciesCopied(session, named === undefined ? {} : { ENABLED_CONTROLLERS: named })),
    ...(cni.ipam.type === 'netplug-ipam' ? { addressFaults: async (pods) => addressFaults(session, pods) } : {}),
  };
}

/** With etcd, a NetworkPolicy comes into force once a controller has copied it. */
async function arePoliciesCopied(
  { store, datastore, context: { signal } }: UpgradeSession,
  env: Env,
): Promise<boolean> {
  if (datastore.type !== 'kvv3') return true;
  const id = { kind: 'ControllersConfiguration', name: CONTROLLERS_CONFIGURATION_NAME } as const;
  const configuration = await store.findResource(id, signal);
  return controllersSettings(env, datastore.type, configuration?.spec).controllers.has('policy');
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
      const isOwn = holder.pod === name && holder.namespace === SYSTEM_NAMESPACE;
      return isOwn ? [] : [`pod ${name} has ${text}, which ${holder.namespace ?? ''}/${holder.pod ?? holder.id} holds`];
    });
  });
}
