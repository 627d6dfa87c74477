import type { Manifest } from '../../model/manifest.ts';
import { BIN_DIR, CONF_DIR } from '../places.ts';
import { runtimeFolders } from './agent-daemon-set.ts';
import { CLEANUP_SET } from './names.ts';
import { type HostFolder, hostMounts, hostVolumes } from './pod-template.ts';
import type { ClusterSettings } from './settings.ts';
import { nodeDaemonSet, placementOf } from './node-daemon-set.ts';

/** Parents of the folders of netplug, so that these can be removed as well. */
const FOLDERS: readonly HostFolder[] = [
  { name: 'var-lib', path: '/var/lib' },
  { name: 'var-log', path: '/var/log' },
  { name: 'run', path: '/run', propagation: 'HostToContainer' },
  { name: 'modules', path: '/lib/modules', access: 'read-only' },
];

const CLEAN = ['netplugctl', 'node', 'uninstall', '--purge', '--force'];
/** The image has no shell. The port is that of the operator, which is gone. */
const WAIT = ['netplugctl', 'probe', 'serve', '--port', '9097'];

/**
 * Returns the DaemonSet that removes plugin, conflist and network from every node, once no agent runs. A pod of it is ready when
 * its node is clean.
 */
export function cleanupDaemonSet(settings: ClusterSettings): Manifest {
  const { node } = settings.images;
  const [bin, conf] = runtimeFolders(settings.spec);
  const folders = [bin, conf, ...FOLDERS];
  return nodeDaemonSet(settings, {
    name: CLEANUP_SET,
    // Every node at once: nothing depends on the order any more.
    updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: '100%' } },
    account: 'default',
    initContainers: [
      {
        name: 'clean',
        image: node,
        command: [
          ...CLEAN,
          ...(bin.path === BIN_DIR ? [] : ['--bin-dir', bin.path]),
          ...(conf.path === CONF_DIR ? [] : ['--conf-dir', conf.path]),
        ],
        more: { securityContext: { privileged: true }, volumeMounts: hostMounts(folders) },
      },
    ],
    containers: [{ name: 'cleaned', image: node, command: WAIT }],
    volumes: hostVolumes(folders),
    override: placementOf(settings),
    more: { hostPID: true, automountServiceAccountToken: false, terminationGracePeriodSeconds: 1 },
  });
}
