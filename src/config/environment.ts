import { decodeDigests } from '../base/image-digests.ts';
import { ownValue } from '../base/own-value.ts';
import { NetplugError } from '../base/errors.ts';
import { tryReadDuration } from '../model/spec-types.ts';
import { tryParseAddress } from '../net/address.ts';
import { controllerCalled, CONTROLLER_NAMES, type ControllerName } from './controller-names.ts';

/** Environment variables by name, as a process has them. */
export type Env = Readonly<Record<string, string | undefined>>;

/** The programs that are configured by environment variables. */
export type ConfiguredProgram =
  | 'netplug'
  | 'netplug-agent'
  | 'netplug-bird'
  | 'netplugctl'
  | 'netplug-orch-controllers'
  | 'netplug-operator'
  | 'netplug-sidecar'
  | 'netplug-typha';

interface Variable<T> {
  /** Used when the variable is not set; shown in the documentation unless `shownDefault` is given. */
  readonly byDefault: string;
  readonly shownDefault?: string;
  /** Used by some programs in place of `byDefault`. */
  readonly otherDefaults?: Readonly<Partial<Record<ConfiguredProgram, string>>>;
  /** Set where an empty value is a value of its own; elsewhere it counts as not set. */
  readonly ifEmpty?: 'value';
  /** Completes "Set it to …". */
  readonly allowed: string;
  /** The meaning of the variable for each program that reads it; Markdown. */
  readonly meaning: Readonly<Partial<Record<ConfiguredProgram, string>>>;
  /** Returns undefined for a value that is not allowed. */
  readonly decode: (text: string) => T | undefined;
}

export interface HealthAddress {
  readonly host: string;
  readonly port: number;
}

/** For every program that serves metrics to other hosts. */
const METRICS_MEANING =
  'IP address and port of a second server, of `/metrics` alone, for a Prometheus on another host; see [monitoring](monitoring.md).';

/** Every environment variable of netplug's own except those that name the datastore, which are in `DATASTORE_VARIABLES`. */
export const ENVIRONMENT = {
  NODENAME: variable({
    byDefault: '',
    shownDefault: 'host name',
    ifEmpty: 'value',
    allowed: 'the name of the node as the orchestrator has it',
    meaning: { 'netplug-agent': 'Name of the node, as the orchestrator has it.' },
    decode: (text) => (/^[^\s/]+$/.test(text) ? text : undefined),
  }),
  NETPLUG_ORCHCONFIG: text('', {
    'netplug-typha':
      'Kubeconfig with the account of the server, or `in-cluster` for that of its pod, in place of the file that `ORCHCONFIG` names.',
    'netplug-orch-controllers':
      'Kubeconfig with the account of the controllers, or `in-cluster` for that of their pod. They use it for every request to the API of the orchestrator, in place of the file that `ORCHCONFIG` names.',
    'netplug-operator':
      'Kubeconfig with the account of the operator, or `in-cluster` for that of its pod. Without it, the file that `ORCHCONFIG` names, the URL of `ORCH_API_ROOT`, or the account of the pod.',
    'netplug-agent':
      "Kubeconfig with the agent's own account, or `in-cluster` for that of its pod. The agent uses it for every request to the API of the orchestrator, in place of the file that `ORCHCONFIG` or the network configuration names: see [rights](netplug-agent.md#rights).",
  }),
  NETPLUG_SOCKET: text('/run/netplug/cni.sock', {
    netplug: 'Socket of the agent.',
    'netplug-agent': 'Socket on which the agent serves calls.',
    netplugctl: 'Socket of the agent; `--socket` takes precedence.',
  }),
  NETPLUG_STATE_DIR: text('/var/lib/netplug', {
    netplug:
      'Folder of `nodename` and `cni-conf-dir`, which the agent writes, of `link-key`, and of `attachments/` and `kept/`.',
    'netplug-agent':
      'Folder of `nodename`, `mtu`, `cni-conf-dir`, `agent.lock`, `network.lock`, `policy`, `datastore-servers`, `folder-id`, `cni-token`, `link-key`, `agent-files.json`, `journal/`, `attachments/` and `kept/`.',
    netplugctl: 'Folder of the state of agent and plugin on the node, and of the record of an installation.',
  }),
  NETPLUG_RUN_DIR: text('/run/netplug', {
    'netplug-bird': 'Folder of `bird/`, which holds the configuration and the control socket of BIRD.',
    'netplug-agent': 'Folder of files that need not survive a reboot, such as those of BIRD in `bird/`.',
    netplugctl: 'Folder of files that need not survive a reboot, such as those of BIRD in `bird/`.',
  }),
  NETPLUG_CNI_CONF_DIR: text('/etc/cni/net.d', {
    netplug:
      'Folder in which the plugin looks up the network list for `orch/…-bandwidth` annotations and `disableGC`. An agent uses its own variable; without an agent, that of the last one counts, from `cni-conf-dir`, unless the runtime has the variable.',
    netplugctl: 'Folder in which the runtime finds its network configurations.',
    'netplug-agent':
      'Folder in which the runtime finds its network configurations. The agent [writes](netplug-agent.md#conflist-and-credentials-of-the-plugin) there only when `NETPLUG_CONFLIST_FILE` or `NETPLUG_CNI_ACCOUNT` is set.',
  }),
  NETPLUG_CNI_BIN_DIR: text('/opt/cni/bin', {
    netplugctl: 'Folder of plugins that `doctor` examines without `--bin-dir` and `CNI_PATH`.',
    'netplug-agent':
      'Folder in which the runtime finds plugins. The agent calls `portmap` there for [host ports](networking.md), and looks there for the program of a configuration that is read before that of netplug, and for [address managers that it asks to release](networking.md#with-host-local).',
  }),
  NETPLUG_CONFLIST_FILE: text('', {
    'netplug-agent':
      'Conflist that the agent [installs](netplug-agent.md#conflist-and-credentials-of-the-plugin) in `NETPLUG_CNI_CONF_DIR` when the node can serve pods, and again whenever the file changes; such as the file of a mounted ConfigMap.',
  }),
  NETPLUG_CONFLIST_NAME: variable({
    byDefault: '10-netplug.conflist',
    allowed: 'a file name that ends in .conflist',
    meaning: { 'netplug-agent': 'Name under which the agent installs `NETPLUG_CONFLIST_FILE`.' },
    decode: (text) => (/^[^/\s.][^/\s]*\.conflist$/.test(text) ? text : undefined),
  }),
  NETPLUG_KV_CERTIFICATES_FROM: text('', {
    'netplug-agent':
      'Folder with `ca.crt`, `tls.crt` and `tls.key` of etcd, such as a mounted Secret. The agent copies them to the folder of `KV_CERT_FILE` on the host before it connects, and whenever they change.',
  }),
  NETPLUG_CNI_ACCOUNT: variable({
    byDefault: '',
    allowed: 'the name of a service account',
    meaning: {
      'netplug-agent':
        'Service account of the plugin, in the namespace `NETPLUG_NAMESPACE`. The agent [requests and renews](netplug-agent.md#conflist-and-credentials-of-the-plugin) its token, and writes the kubeconfig of the plugin.',
    },
    decode: (text) => (/^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$/.test(text) ? text : undefined),
  }),
  NETPLUG_BIRD: words(['own', 'external'], {
    'netplug-agent':
      '`external`: another process, [`netplug-bird`](networking.md#bird-in-a-pod-of-its-own), runs BIRD in `bird/` below `NETPLUG_RUN_DIR`; the agent only configures it. `own`: the agent starts BIRD.',
  }),
  NETPLUG_BIRD_LINKS: number({
    byDefault: '5000',
    allowed: 'a whole number, 0 for never',
    meaning: {
      'netplug-agent':
        'Links that the host may get before the agent [restarts BIRD](networking.md#restarts-of-bird) gracefully; `0`: never.',
    },
    isAllowed: (count) => Number.isSafeInteger(count),
  }),
  NETPLUG_CALL_TIMEOUT: number({
    byDefault: '60',
    allowed: 'a number of seconds above 0 and up to 3600',
    meaning: { netplug: 'Seconds for a whole call, cleaning up included; up to 3600.' },
    isAllowed: (seconds) => seconds > 0 && seconds <= 3600,
  }),
  NETPLUG_WARM_POOL_SIZE: number({
    byDefault: '256',
    allowed: 'a whole number from 0 to 1024',
    meaning: {
      'netplug-agent':
        "Addresses that the agent pre-allocates per pool in use, as far as the node's blocks have them; 0 to 1024.",
    },
    isAllowed: (count) => Number.isInteger(count) && count <= 1024,
  }),
  NETPLUG_HEALTH_ADDRESS: variable<HealthAddress | 'off'>({
    byDefault: '127.0.0.1:9098',
    // On the network of a node, beside its agent.
    otherDefaults: {
      'netplug-orch-controllers': '127.0.0.1:9094',
      'netplug-operator': '127.0.0.1:9095',
      'netplug-typha': '127.0.0.1:9093',
    },
    ifEmpty: 'value',
    allowed:
      'an IP address and a port, such as 127.0.0.1:9098 or [::1]:9098, or to an empty string to disable the server',
    meaning: {
      'netplug-agent': 'IP address and port of the [health](netplug-agent.md#health) server; empty switches it off.',
      'netplug-orch-controllers':
        'IP address and port of the [health](controllers.md#health) server; empty switches it off.',
      'netplug-operator':
        'IP address and port of the [health](netplug-operator.md#health) server; empty switches it off.',
      'netplug-typha': 'IP address and port of the [health](netplug-typha.md#health) server; empty switches it off.',
    },
    decode: decodeHealthAddress,
  }),
  NETPLUG_METRICS_ADDRESS: variable<HealthAddress | 'off'>({
    byDefault: '',
    ifEmpty: 'value',
    allowed:
      'an IP address and a port, such as 10.0.0.5:9097 or [::]:9097, or to an empty string to disable the server',
    meaning: {
      'netplug-agent': METRICS_MEANING,
      'netplug-orch-controllers': METRICS_MEANING,
      'netplug-typha': METRICS_MEANING,
    },
    decode: decodeHealthAddress,
  }),
  NETPLUG_NETWORKING: words(['on', 'off', 'policy'], {
    'netplug-agent':
      '`policy`: another plugin connects the nodes, and the agent enforces [policies](networking.md#with-another-plugin) only. `off`: the agent serves calls only, and enforces no policies.',
  }),
  NETPLUG_IP: detection('IPv4'),
  NETPLUG_IP6: detection('IPv6'),
  USE_POD_CIDR: words(['false', 'true'], {
    'netplug-agent': "`true`: routes follow the nodes' pod CIDRs, for [`host-local`](networking.md#with-host-local).",
    'netplug-typha':
      '`true`: routes follow the pod CIDRs of nodes, and blocks are not followed. The same as on the agents.',
  }),
  NETPLUG_TYPHA: words(['off', 'on'], {
    'netplug-agent':
      '`on`: what every node follows comes from [netplug-typha](netplug-typha.md) instead of the API server. Needs `DATASTORE_TYPE=orch` and the token of the pod.',
  }),
  NETPLUG_TYPHA_TOKEN: text('/var/run/secrets/netplug-typha/token', {
    'netplug-agent':
      'Token that proves the node to [netplug-typha](netplug-typha.md): bound to the pod, for the audience `netplug-typha`.',
  }),
  NETPLUG_TYPHA_LISTEN: variable<HealthAddress>({
    byDefault: '[::]:5473',
    allowed: 'an IP address and a port, such as [::]:5473',
    meaning: { 'netplug-typha': 'IP address and port at which agents connect.' },
    decode: decodeAddress,
  }),
  NETPLUG_TYPHA_MAX_CLIENTS: number({
    byDefault: '2000',
    allowed: 'a whole number from 1 to 10000',
    meaning: { 'netplug-typha': 'Agents that one server serves; others ask another server.' },
    isAllowed: (count) => Number.isInteger(count) && count >= 1 && count <= 10_000,
  }),
  NETPLUG_SIDECAR_PROXY: variable<HealthAddress>({
    byDefault: '127.0.0.1:15000',
    allowed: 'an IP address and a port, such as 127.0.0.1:15000',
    meaning: {
      'netplug-sidecar':
        'Where the proxy of the pod answers questions about its configuration, in the network of the pod.',
    },
    decode: decodeAddress,
  }),
  NETPLUG_SIDECAR_DRAIN_SECONDS: number({
    byDefault: '28',
    allowed: 'a number of seconds from 0 to 3600',
    meaning: {
      'netplug-sidecar': 'Longest time for which requests are judged after the signal to end, while the proxy drains.',
    },
    isAllowed: (seconds) => seconds <= 3600,
  }),
  NETPLUG_TYPHA_DRAIN_SECONDS: number({
    byDefault: '60',
    allowed: 'a number of seconds from 0 to 3600',
    meaning: { 'netplug-typha': 'Time in which agents move to other servers when this one is stopped.' },
    isAllowed: (seconds) => seconds <= 3600,
  }),
  HOST_IPS: text('', {
    'netplug-typha': 'Addresses of the host, separated by commas, by which agents reach the server.',
  }),
  POD_UID: text('', {
    'netplug-typha': 'UID of the pod, with which the Lease of the server is removed.',
  }),
  NETPLUG_VXLAN_CHECKSUMS: words(['auto', 'software', 'offload'], {
    'netplug-agent': 'Whether the kernel or the device computes checksums inside [VXLAN](networking.md#vxlan).',
  }),
  NETPLUG_POD_SOURCE_CHECK: words(['strict', 'off'], {
    netplug: '`off`: links are made without [`rp_filter`](networking.md#what-is-dropped).',
    'netplug-agent':
      '`off`: pods may send with [foreign addresses](networking.md#what-is-dropped), and others with theirs.',
  }),
  NETPLUG_BANDWIDTH_BURST_MS: number({
    byDefault: '100',
    allowed: 'a whole number of milliseconds from 1 to 1000',
    meaning: {
      netplug:
        'Milliseconds of its rate that a pod with an `orch/…-bandwidth` annotation sends or receives [at once](networking.md#rates-of-pods).',
      netplugctl: 'The same as on the agent, for `plan add`.',
      'netplug-agent':
        'Milliseconds of its rate that a pod with a bandwidth annotation, of either spelling, sends or receives [at once](networking.md#rates-of-pods); up to 1000.',
    },
    isAllowed: (ms) => Number.isInteger(ms) && ms >= 1 && ms <= 1000,
  }),
  NETPLUG_POLICY: words(['auto', 'on', 'off'], {
    'netplug-agent':
      'Whether the agent enforces [policies](netplug-agent.md#policies). `auto`: from the first pod on whose network has `policy.type` `orch`, also after a restart and a reboot; on etcd only when [controllers](controllers.md) have made the profile of its namespace; `off`: never, also for networks that ask for it.',
  }),
  NETPLUG_INTERFACE_PREFIX: variable({
    byDefault: '',
    allowed: 'beginnings of names of interfaces, separated by commas, such as "eni,vlan"; not of "lo"',
    meaning: {
      'netplug-agent':
        'Beginnings of the names of interfaces that [another plugin](policy.md#pods-of-another-plugin) makes for pods, separated by commas, such as `eni,vlan`: policies are enforced there too. Needs `DATASTORE_TYPE=orch`. `NETPLUG_POLICY` `auto` then means `on`.',
    },
    decode: decodePrefixes,
  }),
  ENABLED_CONTROLLERS: variable({
    byDefault: '',
    shownDefault: 'all that have work on the datastore',
    allowed: `a list of ${CONTROLLER_NAMES.join(', ')}, separated by commas`,
    meaning: {
      'netplug-orch-controllers':
        'The controllers that run, separated by commas: `policy`, `profile` (or `namespace`, `serviceaccount`), `workloadendpoint`, `node`. Takes precedence over the ControllersConfiguration.',
    },
    decode: decodeControllers,
  }),
  RECONCILER_PERIOD: variable({
    byDefault: '5m',
    allowed: 'a time such as "90s", "5m" or "1h"',
    meaning: {
      'netplug-orch-controllers':
        'Interval of the full comparison of each controller. Takes precedence over the ControllersConfiguration.',
    },
    decode: tryReadDuration,
  }),
  POD_NAME: text('', {
    'netplug-agent':
      'Name of the pod of the agent. `/readyz?pod=NAME` then [answers](netplug-agent.md#health) for this pod alone, and an agent that another one has replaced [stands by](netplug-agent.md#two-agents-during-an-upgrade) until it is stopped.',
    'netplug-orch-controllers':
      'Name of the pod, which is the holder of the leader lease. Without it, the host name and a random text.',
    'netplug-typha': 'Name of the pod, by which agents know the server.',
    'netplug-operator':
      'Name of the pod; with a random text it is the holder of the leader lease. Without it, the host name.',
  }),
  NETPLUG_NAMESPACE: text('netplug-system', {
    'netplug-agent':
      'Namespace of the Secrets with BGP passwords and of the account `NETPLUG_CNI_ACCOUNT`, on the orchestrator.',
    'netplug-orch-controllers': 'Namespace of the Lease of the controllers.',
    'netplug-operator': 'Namespace of the Lease of the operator.',
    'netplug-typha': 'Namespace of the Leases of the servers, and of the account of the agents.',
  }),
  NETPLUG_IMAGE_DIGESTS: variable({
    byDefault: '',
    allowed: 'digests by the names of images, such as netplug=sha256:…,netplug-node=sha256:…',
    meaning: {
      'netplug-operator':
        'Digests of the images of its release, which follow their tags. Manifests and chart of a release set it; without it, images go by the tag.',
    },
    decode: decodeDigests,
  }),
  NETPLUG_TRACE: variable({
    byDefault: '',
    allowed: '1',
    meaning: {
      netplug:
        '`1` exports every call to OpenTelemetry; see [traces](netplug-agent.md#traces), also for `TRACEPARENT`.',
      'netplug-agent': '`1` exports every call to OpenTelemetry; see [traces](netplug-agent.md#traces).',
    },
    decode: (text) => text === '1',
  }),
  HELM: text('helm', { netplugctl: 'Program that installs charts: a path, or a name that is looked up in PATH.' }),
  NO_COLOR: variable({
    byDefault: '',
    allowed: 'anything',
    meaning: { netplugctl: 'Any value switches colours off.' },
    decode: (text) => text !== '',
  }),
} as const;

type Values = {
  readonly [Name in keyof typeof ENVIRONMENT]: NonNullable<ReturnType<(typeof ENVIRONMENT)[Name]['decode']>>;
};

/** Returns the value of a variable, or its default in the program when it is not set. @throws cni/env-invalid */
export function readVariable<Name extends keyof Values>(
  env: Env,
  name: Name,
  program?: ConfiguredProgram,
): Values[Name] {
  const { decode, byDefault, otherDefaults = {}, ifEmpty, allowed }: Variable<unknown> = ENVIRONMENT[name];
  const value = env[name];
  const ownDefault = (program === undefined ? undefined : otherDefaults[program]) ?? byDefault;
  const text = value === undefined || (value === '' && ifEmpty !== 'value') ? ownDefault : value;
  const decoded = decode(text);
  // The type of each entry follows from its own `decode`; the compiler does not connect the two through the name.
  if (decoded !== undefined) return decoded as Values[Name];
  throw new NetplugError('cni/env-invalid', `Cannot use the environment: ${name} is ${JSON.stringify(text)}`, {
    hint: `Set ${name} to ${allowed}, or unset it`,
  });
}

export function isSet(env: Env, name: string): boolean {
  return ownValue(env, name) !== undefined && ownValue(env, name) !== '';
}

/** The variables that name the datastore: keys of the network configuration, in capitals. */
export const DATASTORE_VARIABLES = {
  DATASTORE_TYPE: { byDefault: 'kvv3', meaning: '`kvv3` or `orch`. `orch` is the API of the orchestrator.' },
  KV_ENDPOINTS: { byDefault: 'http://127.0.0.1:2379', meaning: 'Endpoint URLs, separated by commas.' },
  KV_DISCOVERY_SRV: {
    byDefault: '',
    meaning: 'Domain whose SRV records name the endpoints. Excludes `KV_ENDPOINTS`.',
  },
  KV_KEY_FILE: { byDefault: '', meaning: 'Private key for mutual TLS, together with `KV_CERT_FILE`.' },
  KV_CERT_FILE: { byDefault: '', meaning: 'Client certificate for mutual TLS, together with `KV_KEY_FILE`.' },
  KV_CA_CERT_FILE: {
    byDefault: '',
    meaning: 'Root certificates trusted for the server, in place of those of the system.',
  },
  KV_AUTHORITY: { byDefault: '', meaning: 'Deprecated: host and port of the only endpoint.' },
  KV_SCHEME: { byDefault: '', meaning: 'Deprecated: `http` or `https`, for `KV_AUTHORITY`.' },
  ORCHCONFIG: { byDefault: '', meaning: 'Kubeconfig for `orch`, as an absolute path.' },
  ORCH_API_ROOT: { byDefault: '', meaning: 'URL of the API server for `orch`, in place of the one in `ORCHCONFIG`.' },
} as const;

function variable<T>(declared: Variable<T>): Variable<T> {
  return declared;
}

function text(byDefault: string, meaning: Variable<string>['meaning']): Variable<string> {
  return { byDefault, allowed: 'a text', meaning, decode: (value) => value };
}

/** Declares a variable with a closed list of values, of which the first is the default. */
function words<const W extends string>(allowed: readonly [W, ...W[]], meaning: Variable<W>['meaning']): Variable<W> {
  return {
    byDefault: allowed[0],
    allowed: allowed.map((word) => `"${word}"`).join(' or '),
    meaning,
    decode: (value) => allowed.find((word) => word === value),
  };
}

/** `routing/detect-address-method.ts` reads the value. */
function detection(family: string): Variable<string> {
  return text('first-found', {
    'netplug-agent': `The node's own ${family} address or [how to find it](networking.md#addresses-of-the-node): an address, with or without prefix; \`first-found\`; \`can-reach=<address>\`; \`interface=<regex>,…\`; \`skip-interface=<regex>,…\`; \`cidr=<cidr>,…\`; \`orch-internal-ip\`; \`none\`.`,
  });
}

/** Declares a number that is not negative, among those that are allowed. */
function number({
  isAllowed,
  ...declared
}: Omit<Variable<number>, 'decode'> & { readonly isAllowed: (value: number) => boolean }): Variable<number> {
  return {
    ...declared,
    decode: (value) => (/^\d+(\.\d+)?$/.test(value) && isAllowed(Number(value)) ? Number(value) : undefined),
  };
}

function decodeAddress(text: string): HealthAddress | undefined {
  const address = decodeHealthAddress(text);
  return address === 'off' ? undefined : address;
}

function decodeHealthAddress(value: string): HealthAddress | 'off' | undefined {
  if (value === '') return 'off';
  const { v6, v4, port } = /^(?:\[(?<v6>[\da-fA-F:]+)\]|(?<v4>[\d.]+)):(?<port>\d{1,5})$/.exec(value)?.groups ?? {};
  const host = v6 ?? v4 ?? '';
  return tryParseAddress(host) !== undefined && Number(port) <= 65_535 ? { host, port: Number(port) } : undefined;
}

/** Names of interfaces have at most 15 characters, and loopback is never that of a pod. */
function decodePrefixes(value: string): readonly string[] | undefined {
  if (value === '') return [];
  const prefixes = value.split(',').map((prefix) => prefix.trim());
  const isValid = (prefix: string): boolean => /^[\w.-]{1,14}$/.test(prefix) && !'lo'.startsWith(prefix);
  return prefixes.every(isValid) ? [...new Set(prefixes)] : undefined;
}

/** Undefined also for a list with an unknown name. */
function decodeControllers(value: string): readonly ControllerName[] | 'by configuration' | undefined {
  if (value === '') return 'by configuration';
  const names = value.split(',').map((name) => controllerCalled(name.trim()));
  return names.every((name) => name !== undefined) ? [...new Set(names)] : undefined;
}
