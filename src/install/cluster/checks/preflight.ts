import { isNewerRelease, isNewerVersion } from '../../../base/compare-versions.ts';
import { RELEASE_LABEL } from '../names.ts';
import { ARCHITECTURES, isTooOld, REQUIREMENTS } from '../../../model/requirements.ts';
import { type Cidr, cidrsOverlap, tryReadCidr } from '../../../net/cidr.ts';
import { datastoreChanges } from './datastore-changes.ts';
import type { DefinitionFact, PreflightFacts, NodeFact, WantedInstallation } from './preflight-facts.ts';

export interface PreflightFinding {
  /** Stable, for tools. */
  readonly id: string;
  readonly severity: 'error' | 'warning';
  /** The flag, object or field that the finding is about. */
  readonly field: string;
  readonly found: string;
  readonly remedy: string;
}

const SKEW_MS = 30_000;
/** What the kubelet says while no network plugin is configured. */
const WAITS_FOR_NETWORK = /cni|network plugin|NetworkPluginNotReady|NetworkReady=false/i;

interface PreflightCheck {
  readonly id: string;
  readonly severity: PreflightFinding['severity'];
  readonly judge: (
    facts: PreflightFacts,
    wanted: WantedInstallation,
  ) => readonly Omit<PreflightFinding, 'id' | 'severity'>[];
}

const CHECKS: readonly PreflightCheck[] = [
  {
    id: 'rights',
    severity: 'error',
    judge: ({ missingRights }) =>
      missingRights.map((right) => ({
        field: 'rights',
        found: `the user of the kubeconfig may not ${right}`,
        remedy: 'Use the kubeconfig of a cluster administrator (--kubeconfig, --context), or have the right granted',
      })),
  },
  {
    id: 'server-version',
    severity: 'error',
    judge: ({ serverVersion }) =>
      isTooOld('kubernetes', serverVersion)
        ? [
            {
              field: 'API server',
              found: `it has version ${serverVersion}, the oldest supported one is ${REQUIREMENTS.kubernetes.oldest}`,
              remedy: 'Upgrade Kubernetes first',
            },
          ]
        : [],
  },
  {
    id: 'release',
    severity: 'error',
    judge: ({ release }, wanted) =>
      release !== undefined && isNewerVersion(release, wanted.release)
        ? [
            {
              field: 'ClusterInformation default',
              found: `programs of netplug ${release} run in the cluster, this tool is ${wanted.release}`,
              remedy: `Use netplugctl ${release}`,
            },
          ]
        : [],
  },
  {
    id: 'newer-definitions',
    severity: 'error',
    judge: ({ definitions }, { release }) =>
      definitions
        .filter((definition) => isOfNewerRelease(definition, release))
        .map(({ name, release: theirs = '' }) => ({
          field: `CustomResourceDefinition ${name}`,
          found: `it is of release ${theirs}, this tool is ${release}`,
          remedy: `Use netplugctl ${theirs}: an older definition would drop fields of every record. After a rollback, remove the mark: kubectl label crd ${name} ${RELEASE_LABEL}-`,
        })),
  },
  {
    id: 'changed-definitions',
    severity: 'warning',
    judge: ({ definitions }, { release }) =>
      definitions
        .filter((definition) => definition.further.length > 0 && !isOfNewerRelease(definition, release))
        .map(({ name, further }) => ({
          field: `CustomResourceDefinition ${name}`,
          found: `it has fields that ${release} does not have: ${further.slice(0, 5).join(', ')}`,
          remedy:
            'The installation replaces it, and values of these fields are lost when their record is written next; nothing is to be done unless you need them',
        })),
  },
  {
    id: 'older-definitions',
    severity: 'warning',
    judge: ({ definitions }, { release }) =>
      definitions
        .filter((definition) => definition.lacking.length > 0 && !isOfNewerRelease(definition, release))
        .map(({ name, lacking }) => ({
          field: `CustomResourceDefinition ${name}`,
          found: `it lacks ${lacking.slice(0, 5).join(', ')}`,
          remedy: 'The installation replaces it; nothing is to be done',
        })),
  },
  {
    id: 'other-method',
    severity: 'error',
    judge: ({ installedBy }, { method }) =>
      installedBy === undefined || installedBy === method || (installedBy === 'manifest' && method === 'operator')
        ? []
        : [
            {
              field: '--method',
              found: `netplug was installed by ${installedBy}, which would undo the work of another method`,
              remedy: `Use --method ${installedBy}, or remove it first with: netplugctl uninstall cluster`,
            },
          ],
  },
  {
    id: 'other-variant',
    severity: 'error',
    judge: (_, { variant, runs }) =>
      runs === undefined || runs.variant === variant
        ? []
        : [
            {
              field: '--variant',
              found: `the variant ${runs.variant} is installed, and ${variant} would cut off pods that run`,
              remedy: `Use --variant ${runs.variant}, or remove it first with: netplugctl uninstall cluster`,
            },
          ],
  },
  {
    id: 'other-datastore',
    severity: 'error',
    judge: (_, { datastore, runs }) => (runs === undefined ? [] : datastoreChanges(runs.datastore, datastore)),
  },
  { id: 'nodes', severity: 'error', judge: ({ nodes }) => noNodes(nodes) },
  { id: 'node-kernel', severity: 'error', judge: ({ nodes }) => linuxNodes(nodes).flatMap(kernelFaults) },
  {
    id: 'node-ready',
    severity: 'error',
    judge: ({ nodes }) =>
      linuxNodes(nodes).flatMap(({ name, notReady }) =>
        notReady === undefined || WAITS_FOR_NETWORK.test(notReady)
          ? []
          : [
              {
                field: `Node ${name}`,
                found: `it is not ready for another reason than its network: ${notReady}`,
                remedy: 'Repair the node, or remove it from the cluster',
              },
            ],
      ),
  },
  {
    id: 'node-clock',
    severity: 'error',
    judge: ({ nodes }) =>
      linuxNodes(nodes).flatMap(({ name, clockAheadMs: ahead }) =>
        ahead === undefined || Math.abs(ahead) <= SKEW_MS
          ? []
          : [
              {
                field: `Node ${name}`,
                found: `its clock is ${String(Math.round(Math.abs(ahead) / 1000))} s ${ahead > 0 ? 'ahead of' : 'behind'} that of the API server`,
                remedy: 'Synchronize the clocks (NTP): tokens and certificates would be refused',
              },
            ],
      ),
  },
  { id: 'pods-cidr', severity: 'error', judge: missingPodCidrs },
  { id: 'pools', severity: 'error', judge: overlaps },
  {
    id: 'other-plugin',
    severity: 'error',
    judge: ({ foreignPlugins }, { variant }) =>
      variant === 'policy-and-networking'
        ? foreignPlugins.map((set) => ({
            field: `DaemonSet ${set}`,
            found: 'another network plugin is installed, whose configuration nodes may read first',
            remedy:
              'Remove it from cluster and nodes first, or keep it with --variant second-plugin or --variant policy-only',
          }))
        : [],
  },
  {
    id: 'ports',
    severity: 'error',
    judge: ({ portHolders }) =>
      portHolders.map(({ pod, port }) => ({
        field: `Pod ${pod}`,
        found: `it has port ${String(port)} of its node, which netplug needs`,
        remedy: 'Move the pod to another port',
      })),
  },
  {
    id: 'webhooks',
    severity: 'warning',
    judge: ({ podWebhooks }) =>
      podWebhooks.map((name) => ({
        field: name,
        found: 'it is called for pods of netplug-system and runs in pods, which need the network first',
        remedy: 'Exclude the namespace netplug-system in its namespaceSelector',
      })),
  },
  {
    id: 'certificates',
    severity: 'error',
    judge: ({ certificateFaults }) =>
      certificateFaults.map((found) => ({
        field: 'certificates of etcd',
        found,
        remedy: 'Name files with a valid client certificate in KV_CERT_FILE, KV_KEY_FILE and KV_CA_CERT_FILE',
      })),
  },
];

/** Returns what speaks against the installation, errors first. Pure. */
export function preflight(facts: PreflightFacts, wanted: WantedInstallation): readonly PreflightFinding[] {
  const findings = CHECKS.flatMap(({ id, severity, judge }) =>
    judge(facts, wanted).map((finding): PreflightFinding => ({ id, severity, ...finding })),
  );
  return [
    ...findings.filter(({ severity }) => severity === 'error'),
    ...findings.filter(({ severity }) => severity === 'warning'),
  ];
}

function isOfNewerRelease({ release = '' }: DefinitionFact, ours: string): boolean {
  return isNewerRelease(release, ours);
}

function linuxNodes(nodes: readonly NodeFact[]): readonly NodeFact[] {
  return nodes.filter(({ os }) => os === 'linux');
}

type Judged = readonly Omit<PreflightFinding, 'id' | 'severity'>[];

function noNodes(nodes: readonly NodeFact[]): Judged {
  if (linuxNodes(nodes).length > 0) return [];
  return [{ field: 'nodes', found: 'the cluster has no node with Linux', remedy: 'Add a node first' }];
}

function kernelFaults({ name, kernel, architecture }: NodeFact): Judged {
  const field = `Node ${name}`;
  return [
    ...(isTooOld('kernel', kernel)
      ? [{ field, found: `it has Linux ${kernel}`, remedy: `Use Linux ${REQUIREMENTS.kernel.oldest} or later` }]
      : []),
    ...(ARCHITECTURES.includes(architecture)
      ? []
      : [
          {
            field,
            found: `it has the architecture ${architecture}`,
            remedy: `Use nodes with ${ARCHITECTURES.join(' or ')}`,
          },
        ]),
  ];
}

function missingPodCidrs({ nodes }: PreflightFacts, { usesPodCidrs }: WantedInstallation): Judged {
  if (!usesPodCidrs) return [];
  return linuxNodes(nodes)
    .filter(({ podCidrs }) => podCidrs.length === 0)
    .map(({ name }) => ({
      field: `Node ${name}`,
      found: 'it has no pod CIDR, from which its pods would get addresses',
      remedy: 'Start the controller manager with --allocate-node-cidrs and --cluster-cidr',
    }));
}

function overlaps(
  { nodes, serviceCidrs, pools: existing }: PreflightFacts,
  { pools, usesPodCidrs }: WantedInstallation,
): Judged {
  const taken = [
    ...nodes.flatMap(({ name, addresses }) => addresses.map((cidr) => ({ what: `the address of node ${name}`, cidr }))),
    ...serviceCidrs.map((cidr) => ({ what: 'the range of services', cidr })),
  ];
  return pools.flatMap((pool) => {
    const range = tryReadCidr(pool.cidr)?.cidr;
    if (range === undefined) return [];
    const others = existing
      .filter(({ name, cidr }) => name !== pool.name && cidr !== pool.cidr)
      .map(({ name, cidr }) => ({ what: `the pool "${name}"`, cidr }));
    const found = [...taken, ...(usesPodCidrs ? [] : others)].find(({ cidr }) => overlapsWith(cidr, range));
    if (found === undefined) return [];
    return [
      {
        field: pool.field,
        found: `the pool overlaps ${found.what}, ${found.cidr}`,
        remedy: 'Choose a range that nothing else in the network uses',
      },
    ];
  });
}

function overlapsWith(text: string, range: Cidr): boolean {
  const other = tryReadCidr(text)?.cidr;
  return other !== undefined && cidrsOverlap(other, range);
}
