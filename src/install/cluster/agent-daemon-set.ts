import type { Role } from './rights/role-rule.ts';
import type { Manifest } from '../../model/manifest.ts';
import { PASSWORD_FOLDER } from '../../model/spec-types.ts';
import { BIN_DIR, KUBECONFIG_NAME } from '../places.ts';
import { rendered } from './fields.ts';
import { AGENT_SET, CONFIG_DIR, CONFIG_MAP, KV_CERTIFICATES, SYSTEM_NAMESPACE, TYPHA_TOKEN } from './names.ts';
import { fieldOf, type HostFolder, hostMounts, hostVolumes, variables } from './pod-template.ts';
import { type ClusterSettings, hasFanOut, usesPodCidrs } from './settings.ts';
import { nodeDaemonSet } from './node-daemon-set.ts';
import { datastoreEnvironment, hasCertificates } from './datastore-environment.ts';

const ACCOUNT = 'netplug-agent' satisfies Role['account'];
const PLUGIN_ACCOUNT = 'netplug-cni' satisfies Role['account'];

const STATE: HostFolder = { name: 'state', path: '/var/lib/netplug' };
export const RUN: HostFolder = { name: 'run', path: '/run/netplug' };
/** The agent opens and changes what calls of the runtime name, so paths are those of the host. */
const AGENT_FOLDERS: readonly HostFolder[] = [
  STATE,
  RUN,
  { name: 'log', path: '/var/log/netplug' },
  { name: 'delegated', path: '/var/lib/cni' },
  // Namespaces of pods that start later must be visible as well.
  { name: 'netns', path: '/run/netns', propagation: 'HostToContainer' },
  { name: 'modules', path: '/lib/modules', access: 'read-only' },
];
/** Passwords of BGP sessions, which users put there. */
const BGP_FOLDERS: readonly HostFolder[] = [{ name: 'bgp-passwords', path: PASSWORD_FOLDER, access: 'read-only' }];
/** Folders of the runtime. */
export function runtimeFolders({ cni }: ClusterSettings['spec']): readonly [bin: HostFolder, conf: HostFolder] {
  return [
    { name: 'cni-bin', path: cni.binDir },
    { name: 'cni-conf', path: cni.confDir },
  ];
}

const KV_SOURCE_DIR = '/etc/netplug/kv';
/** Where plugin and agent find the certificates of etcd on the host. */
const KV_DIR = `${STATE.path}/kv`;
export const KV_FILES = { ca: `${KV_DIR}/ca.crt`, cert: `${KV_DIR}/tls.crt`, key: `${KV_DIR}/tls.key` } as const;

const { audience, seconds: expirationSeconds } = TYPHA_TOKEN;
/** The API server takes it for nothing but its audience. */
const TOKEN = {
  name: TYPHA_TOKEN.volume,
  projected: { sources: [{ serviceAccountToken: { path: 'token', audience, expirationSeconds } }] },
};

/** Finishing calls takes 20 s at most, flushing pending writes 5 s. */
const GRACE_SECONDS = 30;
const READY_SECONDS = 5;
/** Strategy by which a DaemonSet replaces agents: the new one takes over beside the old one, so no call of the runtime fails. */
export const ROLLING = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
const INSTALL = ['netplugctl', 'node', 'install', '--executables-only', '--prove-on-host'];
const PRIVILEGED = { securityContext: { privileged: true } };

/** Returns the DaemonSet of the agent, which also installs the plugin on its node. */
export function agentDaemonSet(settings: ClusterSettings): Manifest {
  const { images, spec, variant } = settings;
  const hasBgp = variant === 'policy-and-networking' && spec.calicoNetwork.bgp === 'Enabled';
  const [bin, conf] = runtimeFolders(spec);
  const folders = [bin, conf, ...AGENT_FOLDERS, ...(hasBgp ? BGP_FOLDERS : [])];
  const hasTls = hasCertificates(settings);
  const certificates = { name: 'kv-certificates', secret: { secretName: KV_CERTIFICATES, defaultMode: 0o400 } };
  const installer = {
    name: 'install',
    image: images.node,
    command: [...INSTALL, ...(bin.path === BIN_DIR ? [] : ['--bin-dir', bin.path])],
    more: { ...PRIVILEGED, volumeMounts: hostMounts([bin, STATE]) },
  };
  const agent = {
    name: 'agent',
    image: images.node,
    command: ['netplug-agent'],
    env: [
      fieldOf('NODENAME', 'spec.nodeName'),
      fieldOf('POD_NAME', 'metadata.name'),
      ...variables(agentEnvironment(settings)),
    ],
    more: {
      ...PRIVILEGED,
      startupProbe: { ...probe('/healthz'), periodSeconds: 2, failureThreshold: 60 },
      livenessProbe: { ...probe('/healthz'), periodSeconds: 10, failureThreshold: 6, timeoutSeconds: 5 },
      readinessProbe: { ...probe('/readyz'), periodSeconds: READY_SECONDS, timeoutSeconds: 5 },
      volumeMounts: [
        ...hostMounts(folders),
        { name: 'config', mountPath: CONFIG_DIR, readOnly: true },
        ...(hasTls ? [{ name: certificates.name, mountPath: KV_SOURCE_DIR, readOnly: true }] : []),
        ...(hasFanOut(settings) ? [{ name: TOKEN.name, mountPath: TYPHA_TOKEN.folder, readOnly: true }] : []),
      ],
    },
  };
  return nodeDaemonSet(settings, {
    name: AGENT_SET,
    updateStrategy: settings.areAgentsHeld ? { type: 'OnDelete' } : ROLLING,
    minReadySeconds: READY_SECONDS,
    account: ACCOUNT,
    initContainers: variant === 'policy-only' ? [] : [installer],
    containers: [agent],
    volumes: [
      ...hostVolumes(folders),
      { name: 'config', configMap: { name: CONFIG_MAP } },
      ...(hasTls ? [certificates] : []),
      ...(hasFanOut(settings) ? [TOKEN] : []),
    ],
    override: spec.node,
    more: { hostPID: true, terminationGracePeriodSeconds: GRACE_SECONDS },
  });
}

/** Only the agent that runs in the pod answers, also while another one still listens on the port of the node. */
function probe(path: '/healthz' | '/readyz'): Manifest {
  return { exec: { command: ['netplug-probe', path] } };
}

function agentEnvironment(settings: ClusterSettings): Readonly<Record<string, string | undefined>> {
  const { variant, spec, interfacePrefix } = settings;
  const { calicoNetwork } = spec;
  const isFull = variant === 'policy-and-networking';
  return {
    NETPLUG_NAMESPACE: SYSTEM_NAMESPACE,
    NETPLUG_ORCHCONFIG: 'in-cluster',
    ORCHCONFIG: `${spec.cni.confDir}/${KUBECONFIG_NAME}`,
    ...datastoreEnvironment(settings, KV_DIR),
    NETPLUG_KV_CERTIFICATES_FROM: hasCertificates(settings) ? KV_SOURCE_DIR : undefined,
    NETPLUG_NETWORKING: isFull ? 'on' : 'policy',
    NETPLUG_POLICY: variant === 'policy-only' ? 'on' : calicoNetwork.policy === 'Enabled' ? undefined : 'off',
    NETPLUG_INTERFACE_PREFIX: interfacePrefix,
    USE_POD_CIDR: usesPodCidrs(settings) ? 'true' : undefined,
    NETPLUG_TYPHA: hasFanOut(settings) ? 'on' : undefined,
    ...rendered(spec, 'variable'),
    NETPLUG_BIRD: isFull && calicoNetwork.bgp === 'Enabled' ? 'external' : undefined,
    ...(variant === 'policy-only'
      ? {}
      : { NETPLUG_CONFLIST_FILE: `${CONFIG_DIR}/conflist`, NETPLUG_CNI_ACCOUNT: PLUGIN_ACCOUNT }),
  };
}
