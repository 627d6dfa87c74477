import { NetplugError } from '../base/errors.ts';
import { tryParseAddress } from '../net/address.ts';

/** Environment variables by name, as a process has them. */
export type Env = Readonly<Record<string, string | undefined>>;

/** The programs that are configured by environment variables. */
export type ConfiguredProgram = 'netplug' | 'netplug-agent' | 'netplugctl';

interface Variable<T> {
  /** Used when the variable is not set; shown in the documentation unless `shownDefault` is given. */
  readonly byDefault: string;
  readonly shownDefault?: string;
  /** Whether an empty value counts as not set, as for nearly every variable. */
  readonly ifEmpty: 'default' | 'value';
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
    'netplug-agent':
      "Kubeconfig with the agent's own account, or `in-cluster` for that of its pod. The agent uses it for every request to the API of the orchestrator, in place of the file that `ORCHCONFIG` or the network configuration names: see [rights](netplug-agent.md#rights).",
  }),
  NETPLUG_SOCKET: text('/run/netplug/cni.sock', {
    netplug: 'Socket of the agent.',
    'netplug-agent': 'Socket on which the agent serves calls.',
    netplugctl: 'Socket of the agent; `--socket` takes precedence.',
  }),
  NETPLUG_STATE_DIR: text('/var/lib/netplug', {
    netplug: 'Folder of `nodename`, which the agent writes, and of `attachments/`.',
    'netplug-agent':
      'Folder of `nodename`, `mtu`, `agent.lock`, `network.lock`, `folder-id`, `journal/` and `attachments/`.',
    netplugctl: 'Folder of the state of agent and plugin on the node, and of the record of an installation.',
  }),
  NETPLUG_RUN_DIR: text('/run/netplug', {
    'netplug-agent': 'Folder of files that need not survive a reboot, such as those of BIRD in `bird/`.',
    netplugctl: 'Folder of files that need not survive a reboot, such as those of BIRD in `bird/`.',
  }),
  NETPLUG_CNI_CONF_DIR: text('/etc/cni/net.d', {
    netplug: 'Folder in which the plugin looks up the network list for `orch/…-bandwidth` annotations.',
    netplugctl: 'Folder in which the runtime finds its network configurations.',
  }),
  NETPLUG_CALL_TIMEOUT: variable({
    byDefault: '60',
    ifEmpty: 'default',
    allowed: 'a number of seconds above 0 and up to 3600',
    meaning: { netplug: 'Seconds for a whole call, cleaning up included; up to 3600.' },
    decode: (text) => numberFrom(text, (seconds) => seconds > 0 && seconds <= 3600),
  }),
  NETPLUG_WARM_POOL_SIZE: variable({
    byDefault: '256',
    ifEmpty: 'default',
    allowed: 'a whole number from 0 to 1024',
    meaning: {
      'netplug-agent':
        "Addresses that the agent pre-allocates per pool in use, as far as the node's blocks have them; 0 to 1024.",
    },
    decode: (text) => numberFrom(text, (count) => Number.isInteger(count) && count <= 1024),
  }),
  NETPLUG_HEALTH_ADDRESS: variable<HealthAddress | 'off'>({
    byDefault: '127.0.0.1:9098',
    ifEmpty: 'value',
    allowed: 'an IP address and a port, such as 127.0.0.1:9098 or [::1]:9098, or to nothing to switch the server off',
    meaning: {
      'netplug-agent': 'IP address and port of the [health](netplug-agent.md#health) server; empty switches it off.',
    },
    decode: decodeHealthAddress,
  }),
  NETPLUG_NETWORKING: words(['on', 'off'], {
    'netplug-agent': '`off`: the agent serves calls only; another program provides the network between nodes.',
  }),
  NETPLUG_IP: detection('IPv4'),
  NETPLUG_IP6: detection('IPv6'),
  USE_POD_CIDR: words(['false', 'true'], {
    'netplug-agent': "`true`: routes follow the nodes' pod CIDRs, for [`host-local`](networking.md#with-host-local).",
  }),
  NETPLUG_VXLAN_CHECKSUMS: words(['auto', 'software', 'offload'], {
    'netplug-agent': 'Whether the kernel or the device computes checksums inside [VXLAN](networking.md#vxlan).',
  }),
  NETPLUG_POD_SOURCE_CHECK: words(['strict', 'off'], {
    netplug: '`off`: links are made without [`rp_filter`](networking.md#what-is-dropped).',
    'netplug-agent': '`off`: pods may send with [foreign addresses](networking.md#what-is-dropped).',
  }),
  NETPLUG_POLICY: words(['auto', 'on', 'off'], {
    'netplug-agent':
      'Whether the agent enforces [policies](netplug-agent.md#policies). `auto`: on the API datastore from the first pod on whose network has `policy.type` `orch`, also after a restart and a reboot; on etcd never; `off`: never, also for networks that ask for it.',
  }),
  NETPLUG_NAMESPACE: text('netplug-system', {
    'netplug-agent': 'Namespace of the Secrets with BGP passwords, on the orchestrator.',
  }),
  NETPLUG_TRACE: variable({
    byDefault: '',
    ifEmpty: 'default',
    allowed: '1',
    meaning: {
      netplug:
        '`1` exports every call to OpenTelemetry; see [traces](netplug-agent.md#traces), also for `TRACEPARENT`.',
      'netplug-agent': '`1` exports every call to OpenTelemetry; see [traces](netplug-agent.md#traces).',
    },
    decode: (text) => text === '1',
  }),
  NO_COLOR: variable({
    byDefault: '',
    ifEmpty: 'default',
    allowed: 'anything',
    meaning: { netplugctl: 'Any value switches colours off.' },
    decode: (text) => text !== '',
  }),
} as const;

type Values = {
  readonly [Name in keyof typeof ENVIRONMENT]: NonNullable<ReturnType<(typeof ENVIRONMENT)[Name]['decode']>>;
};

/** Returns the value of a variable, or its default when it is not set. @throws cni/env-invalid */
export function readVariable<Name extends keyof Values>(env: Env, name: Name): Values[Name] {
  const { decode, byDefault, ifEmpty, allowed }: Variable<unknown> = ENVIRONMENT[name];
  const value = env[name];
  const text = value === undefined || (value === '' && ifEmpty === 'default') ? byDefault : value;
  const decoded = decode(text);
  // The type of each entry follows from its own `decode`; the compiler does not connect the two through the name.
  if (decoded !== undefined) return decoded as Values[Name];
  throw new NetplugError('cni/env-invalid', `Cannot use the environment: ${name} is ${JSON.stringify(text)}`, {
    hint: `Set ${name} to ${allowed}, or unset it`,
  });
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
  KV_CA_CERT_FILE: { byDefault: '', meaning: 'Root certificates trusted for the server.' },
  KV_AUTHORITY: { byDefault: '', meaning: 'Deprecated: host and port of the only endpoint.' },
  KV_SCHEME: { byDefault: '', meaning: 'Deprecated: `http` or `https`, for `KV_AUTHORITY`.' },
  ORCHCONFIG: { byDefault: '', meaning: 'Kubeconfig for `orch`, as an absolute path.' },
  ORCH_API_ROOT: { byDefault: '', meaning: 'URL of the API server for `orch`, in place of the one in `ORCHCONFIG`.' },
} as const;

function variable<T>(declared: Variable<T>): Variable<T> {
  return declared;
}

function text(byDefault: string, meaning: Variable<string>['meaning']): Variable<string> {
  return { byDefault, ifEmpty: 'default', allowed: 'a text', meaning, decode: (value) => value };
}

/** Declares a variable with a closed list of values, of which the first is the default. */
function words<const W extends string>(allowed: readonly [W, ...W[]], meaning: Variable<W>['meaning']): Variable<W> {
  return {
    byDefault: allowed[0],
    ifEmpty: 'default',
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

function numberFrom(value: string, isAllowed: (value: number) => boolean): number | undefined {
  return /^\d+(\.\d+)?$/.test(value) && isAllowed(Number(value)) ? Number(value) : undefined;
}

function decodeHealthAddress(value: string): HealthAddress | 'off' | undefined {
  if (value === '') return 'off';
  const { v6, v4, port } = /^(?:\[(?<v6>[\da-fA-F:]+)\]|(?<v4>[\d.]+)):(?<port>\d{1,5})$/.exec(value)?.groups ?? {};
  const host = v6 ?? v4 ?? '';
  return tryParseAddress(host) !== undefined && Number(port) <= 65_535 ? { host, port: Number(port) } : undefined;
}
