import { isNewerRelease, isNewerVersion } from '../../../base/compare-versions.ts';
import { type Check, type Fault, faultOf, type Finding, judgeAll } from '../../../checks/check.ts';
import {
  admissionChecks,
  LOST_RIGHTS_CHECK,
  nodeFault,
  NODE_REQUIREMENTS,
  PROXY_CHECK,
  SERVER_CHECKS,
  WEBHOOK_CHECK,
} from '../../../checks/cluster-checks.ts';
import { MESH_CHECKS } from '../../../checks/mesh-checks.ts';
import { RELEASE_LABEL } from '../names.ts';
import { clusterRanges } from '../../../model/cluster-ranges.ts';
import { describeRange, findOverlap, type UsedRange } from '../../../model/used-range.ts';
import { sameCidr, tryReadRange } from '../../../net/cidr.ts';
import { datastoreChanges } from './datastore-changes.ts';
import type { DefinitionFact, NamedRange, PreflightFacts, WantedInstallation } from './preflight-facts.ts';

/** Messages of the kubelet while no network plugin is configured. */
const WAITS_FOR_NETWORK = /cni|network plugin|NetworkPluginNotReady|NetworkReady=false/i;
const SHOWN_FIELDS = 5;

/** Facts about the cluster, and the installation that is wanted. */
export interface InstallFacts extends PreflightFacts {
  readonly wanted: WantedInstallation;
}

/** `nodes` are those with Linux. */
interface JudgedFacts extends InstallFacts {
  readonly allNodes: PreflightFacts['nodes'];
}

const INSTALL_CHECKS: readonly Check<JudgedFacts>[] = [
  // Nothing is known of whether the network works already, with which the webhook would answer.
  { ...WEBHOOK_CHECK, severity: 'warning' },
  LOST_RIGHTS_CHECK,
  ...NODE_REQUIREMENTS,
  ...admissionChecks<JudgedFacts>(({ wanted }) => wanted.admissionPolicies === 'Enabled'),
  {
    id: 'admission/unserved',
    severity: 'warning',
    expected: 'an API server that evaluates ValidatingAdmissionPolicies',
    remedy:
      'Serve admissionregistration.k8s.io/v1 (--runtime-config of the API server), and run the command again, or set spec.admissionPolicies to Disabled',
    needs: ['admission'],
    judge: ({ servesAdmission, wanted }) =>
      servesAdmission || wanted.admissionPolicies === 'Disabled'
        ? []
        : [
            'no admission policies are applied: pods may set every annotation, and the token of a node is not limited to its node',
          ],
  },
  {
    id: 'release/newer',
    severity: 'error',
    expected: 'a tool that is not older than what runs in the cluster',
    needs: ['definitions', 'release'],
    judge: ({ release, wanted }) =>
      release !== undefined && isNewerVersion(release, wanted.release)
        ? [
            {
              found: `programs of netplug ${release} run in the cluster, this tool is ${wanted.release}`,
              remedy: `Use netplugctl ${release}`,
            },
          ]
        : [],
  },
  {
    id: 'definitions/newer',
    severity: 'error',
    expected: 'definitions of a release that is not newer than the tool, which would drop fields of every record',
    needs: ['definitions'],
    judge: ({ definitions, wanted }) =>
      definitions
        .filter((definition) => isOfNewerRelease(definition, wanted))
        .map(({ name, release = '' }) => ({
          found: `CustomResourceDefinition ${name} is of release ${release}, this tool is ${wanted.release}`,
          remedy: `Use netplugctl ${release}. After a rollback, remove the mark: kubectl label crd ${name} ${RELEASE_LABEL}-`,
        })),
  },
  {
    id: 'definitions/changed',
    severity: 'warning',
    expected: 'definitions with no fields but those of this release',
    remedy:
      'The installation replaces it, and values of these fields are lost when their record is written next; nothing is to be done unless you need them',
    needs: ['definitions'],
    judge: ({ definitions, wanted }) =>
      definitions
        .filter((definition) => definition.further.length > 0 && !isOfNewerRelease(definition, wanted))
        .map(
          ({ name, further }) =>
            `CustomResourceDefinition ${name} has fields that ${wanted.release} does not have: ${further.slice(0, SHOWN_FIELDS).join(', ')}`,
        ),
  },
  {
    id: 'definitions/older',
    severity: 'warning',
    expected: 'definitions with every field of this release',
    remedy: 'The installation replaces it; nothing is to be done',
    needs: ['definitions'],
    judge: ({ definitions, wanted }) =>
      definitions
        .filter((definition) => definition.lacking.length > 0 && !isOfNewerRelease(definition, wanted))
        .map(
          ({ name, lacking }) => `CustomResourceDefinition ${name} lacks ${lacking.slice(0, SHOWN_FIELDS).join(', ')}`,
        ),
  },
  {
    id: 'installation/method',
    severity: 'error',
    expected: 'the method by which netplug is installed; another one would undo its work',
    needs: ['method'],
    judge: ({ installedBy, wanted: { method } }) =>
      installedBy === undefined || installedBy === method || (installedBy === 'manifest' && method === 'operator')
        ? []
        : [
            {
              found: `netplug was installed by ${installedBy}`,
              remedy: `Use --method ${installedBy}, or remove it first with: netplugctl uninstall cluster`,
            },
          ],
  },
  {
    id: 'installation/variant',
    severity: 'error',
    expected: 'the variant that is installed; another one would cut off pods that run',
    judge: ({ wanted: { variant, runs } }) =>
      runs === undefined || runs.variant === variant
        ? []
        : [
            {
              found: `the variant ${runs.variant} is installed, not ${variant}`,
              remedy: `Use --variant ${runs.variant}, or remove it first with: netplugctl uninstall cluster`,
            },
          ],
  },
  {
    id: 'installation/datastore',
    severity: 'error',
    expected: 'the datastore of the installation, with its encryption',
    judge: ({ wanted: { datastore, runs } }) =>
      (runs === undefined ? [] : datastoreChanges(runs.datastore, datastore)).map(({ field, found, remedy }) => ({
        found: `${field}: ${found}`,
        remedy,
      })),
  },
  {
    id: 'nodes/none',
    severity: 'error',
    expected: 'a node with Linux',
    remedy: 'Add a node first',
    needs: ['nodes'],
    judge: ({ nodes }) => (nodes.length > 0 ? [] : ['the cluster has no node with Linux']),
  },
  {
    id: 'nodes/not-ready',
    severity: 'error',
    expected: 'every node ready, or only without a network',
    remedy: 'Repair the nodes, or remove them from the cluster',
    needs: ['nodes'],
    judge: ({ nodes }) =>
      nodeFault(
        'nodes are not ready for another reason than their network',
        nodes.filter(({ notReady }) => notReady !== undefined && !WAITS_FOR_NETWORK.test(notReady)),
        ({ notReady = '' }) => notReady,
      ),
  },
  {
    id: 'nodes/no-pod-cidr',
    severity: 'error',
    expected: 'a pod CIDR on every node, from which its pods get addresses',
    remedy: 'Start the controller manager with --allocate-node-cidrs and --cluster-cidr',
    needs: ['nodes'],
    judge: ({ nodes, wanted: { usesPodCidrs } }) =>
      nodeFault('nodes have no pod CIDR', usesPodCidrs ? nodes.filter(({ podCidrs }) => podCidrs.length === 0) : []),
  },
  {
    id: 'pools/overlap',
    severity: 'error',
    expected: 'pools that nothing else in the network uses',
    remedy: 'Choose a range that nothing else in the network uses',
    needs: ['nodes', 'service ranges', 'definitions', 'pools'],
    judge: overlaps,
  },
  {
    id: 'pools/changed',
    severity: 'error',
    expected: 'pools that exist with the CIDR that they have',
    needs: ['definitions', 'pools'],
    judge: changedPools,
  },
  {
    id: 'cluster/other-plugin',
    severity: 'error',
    expected: 'no other network plugin, whose configuration nodes may read first',
    remedy: 'Remove it from cluster and nodes first, or keep it with --variant second-plugin or --variant policy-only',
    needs: ['plugins'],
    judge: ({ foreignPlugins, wanted: { variant } }) =>
      faultOf(
        variant === 'policy-and-networking' ? foreignPlugins.map((set) => `DaemonSet ${set}`) : [],
        'another network plugin is installed',
      ),
  },
  {
    id: 'nodes/port-taken',
    severity: 'error',
    expected: 'the ports of netplug free on every node',
    remedy: 'Move the pods to other ports',
    needs: ['pods'],
    judge: ({ portHolders }) =>
      faultOf(
        portHolders.map(({ pod, port }) => `Pod ${pod} (${String(port)})`),
        'pods have ports of their nodes that netplug needs',
      ),
  },
  {
    id: 'datastore/certificates',
    severity: 'error',
    expected: 'valid certificates of etcd',
    remedy: 'Name files with a valid client certificate in KV_CERT_FILE, KV_KEY_FILE and KV_CA_CERT_FILE',
    judge: ({ certificateFaults }) => certificateFaults.map((found) => `certificates of etcd: ${found}`),
  },
  PROXY_CHECK,
  ...MESH_CHECKS,
];

/** Returns what speaks against the installation. Without the rights that it needs nothing else is judged. Pure. */
export function preflight(facts: InstallFacts): readonly Finding[] {
  const ofServer = judgeAll(SERVER_CHECKS, facts, facts.unread);
  if (facts.missingRights.length > 0) return ofServer;
  const judged = { ...facts, nodes: facts.nodes.filter(({ os }) => os === 'linux'), allNodes: facts.nodes };
  return [...ofServer, ...judgeAll(INSTALL_CHECKS, judged, facts.unread)];
}

function isOfNewerRelease({ release = '' }: DefinitionFact, wanted: WantedInstallation): boolean {
  return isNewerRelease(release, wanted.release);
}

function overlaps({ allNodes, serviceCidrs, pools: existing, wanted }: JudgedFacts): readonly Fault[] {
  const used = clusterRanges({ nodes: allNodes, serviceCidrs });
  return wanted.pools.flatMap(({ name, cidr, field }) => {
    const range = tryReadRange(cidr);
    const others = existing.filter((pool) => pool.name !== name && pool.cidr !== cidr).flatMap(rangeOfPool);
    const found =
      range === undefined ? undefined : findOverlap(range, [...used, ...(wanted.usesPodCidrs ? [] : others)]);
    return found === undefined ? [] : [{ found: `${field}: the pool overlaps ${describeRange(found)}` }];
  });
}

function rangeOfPool({ name, cidr }: NamedRange): readonly UsedRange[] {
  const range = tryReadRange(cidr);
  return range === undefined ? [] : [{ cidr: range, what: `the pool "${name}"` }];
}

/** The API server refuses another CIDR for a pool that exists, in the middle of the installation. */
function changedPools({ pools: existing, wanted }: JudgedFacts): readonly Fault[] {
  if (wanted.usesPodCidrs || wanted.datastore.type === 'kvv3') return [];
  return wanted.pools.flatMap(({ name, cidr, field }) => {
    const twin = existing.find((pool) => pool.name === name);
    return twin === undefined || isSameRange(twin.cidr, cidr)
      ? []
      : [
          {
            found: `${field}: the pool "${name}" exists with ${twin.cidr}, and the CIDR of a pool cannot be changed`,
            remedy: `Name ${twin.cidr}, or leave the pool out, and create another pool with "netplugctl create -f" after the installation`,
          },
        ];
  });
}

function isSameRange(one: string, other: string): boolean {
  const [a, b] = [tryReadRange(one), tryReadRange(other)];
  return a !== undefined && b !== undefined && sameCidr(a, b);
}
