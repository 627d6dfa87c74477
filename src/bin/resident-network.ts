import { join } from 'node:path';
import { mkdirSync } from 'node:fs';
import { registerName } from '../apps/agent/register-node.ts';
import { attachedIn } from './attached.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import { birdFolder, birdIn } from './bird-in.ts';
import { readSecretIn } from './read-secret.ts';
import { NodeNetwork } from '../apps/agent/network/node-network.ts';
import type { NetworkSettings } from '../apps/agent/network/network-settings.ts';
import { writeFileAtomically } from '../base/atomic-file.ts';
import type { Log } from '../base/log.ts';
import type { RetryPorts } from '../base/back-off.ts';
import { linuxHostNetwork } from '../dataplane/linux/host-network.ts';
import { NftPacketFilter } from '../dataplane/linux/nft-packet-filter.ts';
import type { Datastore } from '../config/connection.ts';
import { readVariable } from '../config/environment.ts';
import type { NodeName } from '../model/names.ts';
import type { NamedDatastore } from '../ipam/node/named-datastore.ts';
import { readDetection } from '../routing/detect-address-method.ts';
import { attachmentFolder, stateDir } from './registration.ts';

export interface ResidentNetwork {
  readonly open: (resident: NamedDatastore) => NodeNetwork | undefined;
  /** What was opened. */
  readonly current: () => NodeNetwork | undefined;
}

/**
 * How the agent opens the node's side of the network between nodes; nothing when NETPLUG_NETWORKING is `off`. Reads the
 * environment at once. @throws cni/env-invalid, agent/detection-invalid
 */
export function residentNetwork(
  env: NodeJS.ProcessEnv,
  {
    node,
    datastore,
    ...ports
  }: RetryPorts & { readonly node: NodeName; readonly datastore: Datastore; readonly log: Log },
): ResidentNetwork {
  if (readVariable(env, 'NETPLUG_NETWORKING') === 'off') return { open: () => undefined, current: () => undefined };
  const settings: NetworkSettings = {
    node,
    detection: {
      4: readDetection(readVariable(env, 'NETPLUG_IP')),
      6: readDetection(readVariable(env, 'NETPLUG_IP6')),
    },
    blockSource: readVariable(env, 'USE_POD_CIDR') === 'true' ? 'pod-cidrs' : 'claims',
    sourceCheck: readVariable(env, 'NETPLUG_POD_SOURCE_CHECK'),
  };
  const vxlanChecksums = readVariable(env, 'NETPLUG_VXLAN_CHECKSUMS');
  const state = stateDir(env);
  let current: NodeNetwork | undefined;
  const open = (resident: NamedDatastore): NodeNetwork =>
    new NodeNetwork(
      {
        ...ports,
        store: resident.inner,
        host: linuxHostNetwork({ vxlanChecksums, recordFolder: state }),
        // A batch that a killed agent leaves goes with the folder, at the next boot or with a purge.
        filter: new NftPacketFilter({ folder: ownFolder(env) }),
        bird: birdIn(env),
        birdLog: join(birdFolder(env), 'bird.log'),
        readSecret: readSecretIn(env, datastore),
        attachments: new AttachmentFiles(attachmentFolder(env)),
        listAttached: attachedIn(linuxKernel()),
        register: async ({ mtu }) => {
          mkdirSync(state, { recursive: true });
          await writeFileAtomically(join(state, 'mtu'), {
            text: mtu === undefined ? '' : `${String(mtu)}\n`,
            mode: 0o644,
          });
          await registerName(join(state, 'nodename'), node);
        },
      },
      settings,
    );
  return { open: (resident) => (current = open(resident)), current: () => current };
}

/** The folder for files that need not survive a reboot; made where it is missing. */
function ownFolder(env: NodeJS.ProcessEnv): string {
  const folder = readVariable(env, 'NETPLUG_RUN_DIR');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}
