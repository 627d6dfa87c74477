import * as v from 'valibot';
import { column, type KindDeclaration, nameColumn } from './kind-info.ts';
import { PortProtocol, SinglePort } from './protocol.ts';
import type { Resource } from './resource.ts';
import { CidrText, LogSeverity, wholeNumber } from './spec-types.ts';

const FailsafePorts = v.pipe(
  v.array(
    v.looseObject(
      {
        protocol: v.pipe(PortProtocol, v.description('Its protocol.')),
        port: v.pipe(SinglePort, v.description('Its number.')),
        net: v.optional(v.pipe(CidrText, v.description('Range of remote addresses; all addresses unless set.'))),
      },
      'an object with protocol, port and net',
    ),
    'an array of objects with protocol, port and net',
  ),
  v.readonly(),
);

const LOG_PREFIX = 'at most 64 printable ASCII characters';

const AGENT_CONFIGURATION_FIELDS = {
  logSeverityScreen: v.optional(
    v.pipe(LogSeverity, v.description('Least severe level that is logged; "Info" unless set.')),
  ),
  warmPoolSize: v.optional(
    v.pipe(
      wholeNumber(0, 1024, 'addresses'),
      v.description(
        'Addresses that the agent pre-allocates per pool in use, as far as the node’s blocks have them; 256 unless set. NETPLUG_WARM_POOL_SIZE takes precedence.',
      ),
    ),
  ),
  vxlanChecksums: v.optional(
    v.pipe(
      v.picklist(['auto', 'software', 'offload'], '"auto", "software" or "offload"'),
      v.description(
        'Whether the kernel or the device computes the checksums inside VXLAN; default "auto", which leaves devices as they are since Linux 5.8. NETPLUG_VXLAN_CHECKSUMS takes precedence.',
      ),
    ),
  ),
  failsafeInboundHostPorts: v.optional(
    v.pipe(
      FailsafePorts,
      v.description('Incoming traffic that no policy of a host endpoint can block; an empty list means none.'),
    ),
  ),
  failsafeOutboundHostPorts: v.optional(
    v.pipe(
      FailsafePorts,
      v.description('Outgoing traffic that no policy of a host endpoint can block; an empty list means none.'),
    ),
  ),
  defaultEndpointToHostAction: v.optional(
    v.pipe(
      v.picklist(['Drop', 'Return', 'Accept'], '"Drop", "Return" or "Accept"'),
      v.description('What happens to packets from pods to their node that no policy decides.'),
    ),
  ),
  policyLogPrefix: v.optional(
    v.pipe(
      v.string(LOG_PREFIX),
      // The kernel refuses a rule with more than 127 bytes, and a control character would end the line of its log.
      v.regex(/^[ -~]{0,64}$/, LOG_PREFIX),
      v.description('Prefix of log lines of rules with action `Log`: at most 64 printable ASCII characters.'),
    ),
  ),
  policyEntriesPerPolicy: v.optional(
    v.pipe(
      wholeNumber(1000, 131_072, 'entries'),
      v.description(
        'Entries that one policy may have: its rules, and the ports and networks in them; 131072 unless set. A policy with more denies everything to what it applies to.',
      ),
    ),
  ),
  policyEntriesPerNamespace: v.optional(
    v.pipe(
      wholeNumber(1000, 16_777_216, 'entries'),
      v.description(
        'Entries that all policies of a namespace may have; 262144 unless set. The youngest beyond that deny everything to what they apply to. The same on all nodes, or tools and nodes disagree.',
      ),
    ),
  ),
  policyEntriesPerNode: v.optional(
    v.pipe(
      wholeNumber(1000, 16_777_216, 'entries'),
      v.description(
        'Entries that the policies of a node may have, members of their selectors included; 1048576 unless set. Beyond that the youngest policies of the namespace that has most deny everything to what they apply to.',
      ),
    ),
  ),
  keepEstablishedFlows: v.optional(
    v.pipe(
      v.boolean('true or false, without quotes'),
      v.description(
        'Whether flows that exist go on when a changed policy no longer allows them; default false: they end within a second.',
      ),
    ),
  ),
};

export type AgentConfigurationSpec = Readonly<
  v.InferOutput<v.ObjectSchema<typeof AGENT_CONFIGURATION_FIELDS, undefined>>
>;
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
