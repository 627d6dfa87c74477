import * as v from 'valibot';
import { field, listOf, objectWith, oneOf, optionalField, type SpecOf } from './field.ts';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import { PortProtocol, SinglePort } from './protocol.ts';
import type { Resource } from './resource.ts';
import { CidrText, LogSeverity, wholeNumber, TrueOrFalse } from './spec-types.ts';

const FailsafePorts = listOf(
  objectWith('protocol, port and net', {
    protocol: field(PortProtocol, 'Its protocol.'),
    port: field(SinglePort, 'Its number.'),
    net: optionalField(CidrText, 'Range of remote addresses; all addresses unless set.'),
  }),
  'an array of objects with protocol, port and net',
);

const TRUST_DOMAIN = 'a trust domain such as "cluster.local"';
const LOG_PREFIX = 'at most 64 printable ASCII characters';

const AGENT_CONFIGURATION_FIELDS = {
  logSeverityScreen: optionalField(LogSeverity, 'Least severe level that is logged; "Info" unless set.'),
  warmPoolSize: optionalField(
    wholeNumber(0, 1024, 'addresses'),
    'Addresses that the agent pre-allocates per pool in use, as far as the node’s blocks have them; 256 unless set. NETPLUG_WARM_POOL_SIZE takes precedence.',
  ),
  vxlanChecksums: optionalField(
    oneOf(['auto', 'software', 'offload']),
    'Whether the kernel or the device computes the checksums inside VXLAN; default "auto", which leaves devices as they are since Linux 5.8. NETPLUG_VXLAN_CHECKSUMS takes precedence.',
  ),
  failsafeInboundHostPorts: optionalField(
    FailsafePorts,
    'Incoming traffic that no policy of a host endpoint can block; an empty list means none.',
  ),
  failsafeOutboundHostPorts: optionalField(
    FailsafePorts,
    'Outgoing traffic that no policy of a host endpoint can block; an empty list means none.',
  ),
  defaultEndpointToHostAction: optionalField(
    oneOf(['Drop', 'Return', 'Accept']),
    'What happens to packets from pods to their node that no policy decides.',
  ),
  policyLogPrefix: optionalField(
    v.pipe(
      v.string(LOG_PREFIX), // The kernel refuses a rule with more than 127 bytes, and a control character would end the line of its log.
      v.regex(/^[ -~]{0,64}$/, LOG_PREFIX),
    ),
    'Prefix of log lines of rules with action `Log`: at most 64 printable ASCII characters.',
  ),
  policyEntriesPerPolicy: optionalField(
    wholeNumber(1000, 131_072, 'entries'),
    'Entries that one policy may have: its rules, and the ports, networks and selectors in them; 131072 unless set. A policy with more denies everything to what it applies to.',
  ),
  policyEntriesPerNamespace: optionalField(
    wholeNumber(1000, 16_777_216, 'entries'),
    'Entries that all policies of a namespace may have; 524288 unless set. The youngest beyond that deny everything to what they apply to. The same on all nodes, or tools and nodes disagree.',
  ),
  policyEntriesPerNode: optionalField(
    wholeNumber(1000, 16_777_216, 'entries'),
    'Entries that the policies of a node may have, members of their selectors included; 1048576 unless set. Beyond that the youngest policies of the namespace that has most deny everything to what they apply to.',
  ),
  keepEstablishedFlows: optionalField(
    TrueOrFalse,
    'Whether flows that exist go on when a changed policy no longer allows them; default false: they end within a second.',
  ),
  applicationLayerTrustDomains: optionalField(
    listOf(
      v.pipe(v.string(TRUST_DOMAIN), v.regex(/^[a-z0-9._-]{1,255}$/, TRUST_DOMAIN)),
      'an array of trust domains such as "cluster.local"',
    ),
    'Trust domains of the mesh whose certificates name service accounts of this cluster; "cluster.local" unless set.',
  ),
  applicationLayerIdentity: optionalField(
    oneOf(['AddressOrCertificate', 'Certificate']),
    'Who a client without a certificate is, to rules with `http` or accounts in pods with netplug-sidecar: the pod that has its address (default), or nobody that `serviceAccounts` could name.',
  ),
  applicationLayerProof: optionalField(
    oneOf(['Filter', 'Connected']),
    'When rules with `http` open the ports of a pod: when the configuration of its proxy shows that each request is judged (default), or already when netplug-sidecar runs in it.',
  ),
};

export type AgentConfigurationSpec = SpecOf<typeof AGENT_CONFIGURATION_FIELDS>;
export type AgentConfiguration = Resource<'AgentConfiguration', AgentConfigurationSpec>;

export const AGENT_CONFIGURATION: KindDeclaration<AgentConfiguration> = {
  plural: 'agentconfigurations',
  shortNames: ['agentconfig', 'agentconfigs'],
  scope: 'cluster',
  about:
    'Settings of the agents: `default` applies to all nodes, `node.<name>` to one node. Agents follow them while they run, unless NETPLUG_NETWORKING is off. The connection to the datastore is configured on the node.',
  enforced: true,
  writtenBy: 'user',
  names: 'default-or-node',
  columns: [nameColumn(), column('LOGSEVERITY', 'spec.logSeverityScreen', ({ spec }) => spec.logSeverityScreen ?? '')],
  fields: AGENT_CONFIGURATION_FIELDS,
  example: {
    metadata: { name: 'default' },
    spec: {
      logSeverityScreen: 'Info',
      warmPoolSize: 16,
      failsafeInboundHostPorts: [{ protocol: 'TCP', port: 22, net: '198.51.100.0/24' }],
      defaultEndpointToHostAction: 'Accept',
    },
  },
};
