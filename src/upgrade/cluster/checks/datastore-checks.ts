import { isNewerVersion } from '../../../base/compare-versions.ts';
import { AGENT_SET } from '../../../install/cluster/names.ts';
import { isBeforeStrict, userCreated } from '../../host-endpoints/all-interfaces.ts';
import { clusterRanges } from '../../../model/cluster-ranges.ts';
import { describeRange, findOverlap } from '../../../model/used-range.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { agentContainerIn, variableIn } from '../objects-in.ts';
import { type Check, faultOf } from '../../../checks/check.ts';
import type { HazardFacts } from './hazard-facts.ts';

/** Prefixes of paths end at a segment. */
const SEGMENTS_FROM = 'v3.27.0';
/** Share of a pool in use from which a roll-out with new pods could exhaust it. */
const NEARLY_FULL = 0.95;

/** Checks of the datastore and its records. */
export const RECORD_CHECKS: readonly Check<HazardFacts>[] = [
  {
    id: 'datastore/unreadable',
    severity: 'error',
    expected: 'a datastore that can be read',
    remedy: 'Give the tool access to the datastore as the agents have it, and repeat',
    judge: ({ unread }) =>
      faultOf(
        unread.map(({ fact, why }) => `${fact}: ${why}`),
        'facts of the cluster could not be read',
      ),
  },
  {
    id: 'datastore/other',
    severity: 'error',
    expected: 'the tool and the agents at the same datastore',
    judge: ({ snapshot: { objects, datastore } }) => {
      const used = variableIn(agentContainerIn(objects), 'DATASTORE_TYPE') ?? datastore.type;
      return faultOf(
        used === datastore.type ? [] : [`DaemonSet netplug-system/${AGENT_SET} (${used})`],
        `the agents use ${used} as datastore, and the tool has read ${datastore.type}`,
        used === 'kvv3'
          ? 'Set KV_ENDPOINTS, and with TLS KV_CA_CERT_FILE, KV_CERT_FILE and KV_KEY_FILE, as the agents have them'
          : 'Unset KV_ENDPOINTS, or set DATASTORE_TYPE=orch',
      );
    },
  },
  {
    id: 'datastore/locked',
    severity: 'error',
    expected: 'a datastore that is not locked',
    remedy: 'End the maintenance, then unlock it with "netplugctl datastore unlock"',
    needs: ['ClusterInformation'],
    judge: ({ snapshot: { datastore } }) =>
      faultOf(
        datastore.isLocked === true ? ['ClusterInformation default'] : [],
        'the datastore is locked for maintenance',
      ),
  },
  {
    id: 'datastore/record-unreadable',
    severity: 'error',
    expected: 'records that the target can read',
    remedy: 'Correct them with "netplugctl replace", or delete them; "netplugctl get KIND NAME" says what is wrong',
    judge: ({ snapshot: { datastore } }) => faultOf(datastore.unreadable, 'the target cannot read stored records'),
  },
  {
    id: 'datastore/newer',
    severity: 'error',
    expected: 'records of a release that is not newer than the target',
    remedy: 'Use the tool and the images of that release',
    needs: ['ClusterInformation'],
    judge: ({ snapshot: { datastore }, target }) =>
      faultOf(
        datastore.clusterVersion !== undefined && isNewerVersion(datastore.clusterVersion, target.release)
          ? [`ClusterInformation default (${datastore.clusterVersion})`]
          : [],
        `release ${datastore.clusterVersion ?? ''} has written to the datastore`,
      ),
  },
  {
    id: 'datastore/kv-recommended',
    severity: 'note',
    expected: 'the API of the orchestrator as datastore, which is recommended',
    remedy: 'Consider "netplugctl datastore export" and "import" after the upgrade (docs/tasks.md)',
    judge: ({ installed: { datastore } }) =>
      faultOf(datastore === 'kvv3' ? [`DaemonSet netplug-system/${AGENT_SET} (etcd)`] : [], 'the records are in etcd'),
  },
  {
    id: 'addresses/inconsistent',
    severity: 'warning',
    expected: 'addresses and pods that agree',
    remedy: 'Run "netplugctl ipam check --fix" first, so that the check after the upgrade can be compared',
    needs: ['addresses'],
    judge: ({ snapshot: { datastore } }) =>
      faultOf(
        shortened(datastore.addressFaults ?? countOf(datastore.addressProblems)),
        '"netplugctl ipam check" finds problems',
      ),
  },
  {
    id: 'addresses/pool-full',
    severity: 'warning',
    expected: `pools with less than ${String(100 * NEARLY_FULL)} % in use`,
    remedy: 'Add a pool, or release leaked addresses with "netplugctl ipam check --fix"',
    needs: ['IPPool', 'addresses'],
    judge: ({ snapshot: { datastore } }) =>
      faultOf(
        datastore.pools
          .filter(({ used, isDisabled }) => used >= NEARLY_FULL && isDisabled !== true)
          .map(({ name, used }) => `IPPool ${name} (${String(Math.round(100 * used))} %)`),
        'pools are nearly full, so that probe pods and restarted pods may get no address',
      ),
  },
  {
    id: 'addresses/pool-overlaps-nodes',
    severity: 'error',
    expected: 'pools that overlap neither addresses and networks of nodes nor ranges of Services',
    remedy:
      'Create a pool in another range, move the pods to it and disable this one first; or give the interface of the node a narrower prefix, if no other host of that network has an address in the pool',
    needs: ['IPPool', 'Node', 'nodes', 'service ranges'],
    judge: ({ snapshot: { datastore, nodes, serviceCidrs = [] } }) => {
      const used = clusterRanges({ nodes: [...(datastore.nodes ?? []), ...nodes], serviceCidrs });
      return faultOf(
        datastore.pools.flatMap(({ name, cidr, used: share, isDisabled }) => {
          // Nothing is routed for it.
          if (isDisabled === true && share === 0) return [];
          const found = findOverlap(parseCidr(cidr), used);
          return found === undefined ? [] : [`IPPool ${name} (${cidr}) overlaps ${describeRange(found)}`];
        }),
        'pools overlap what nodes or Services use: programs of the target assign nothing from them, and route no block of theirs over a network of a node',
      );
    },
  },
  {
    id: 'host-endpoints/unprepared',
    severity: 'error',
    expected: 'host endpoints for all interfaces that are prepared, when the upgrade begins before v3.14',
    needs: ['HostEndpoint', 'GlobalNetworkPolicy'],
    judge: (facts) =>
      isBeforeStrict(facts.installed) && facts.snapshot.datastore.preparation.length === 0 ? allInterfaces(facts) : [],
  },
  {
    id: 'host-endpoints/all-interfaces',
    severity: 'note',
    expected: 'automatic host endpoints in place of those for all interfaces',
    needs: ['HostEndpoint'],
    judge: (facts) => (isBeforeStrict(facts.installed) ? [] : allInterfaces(facts)),
  },
  {
    id: 'policy/prefix-meaning',
    severity: 'warning',
    expected: `prefixes of paths that mean the same before and from ${SEGMENTS_FROM} on`,
    remedy:
      'Look whether clients need paths that go on within the segment, such as /items-of-others for /items: add each of them as a path of its own',
    needs: ['NetworkPolicy', 'GlobalNetworkPolicy', 'Profile'],
    judge: ({ snapshot: { datastore }, installed: { from } }) =>
      faultOf(
        from === undefined || isNewerVersion(SEGMENTS_FROM, from) ? shortened(datastore.openPrefixes ?? []) : [],
        `prefixes of paths do not end at a segment: from ${SEGMENTS_FROM} on, they no longer allow requests to paths that go on within it`,
      ),
  },
];

const SHOWN_FAULTS = 20;

function shortened(faults: readonly string[]): readonly string[] {
  const more = faults.length - SHOWN_FAULTS;
  return more > 0 ? [...faults.slice(0, SHOWN_FAULTS), `${String(more)} more`] : faults;
}

function countOf(problems: number | undefined): readonly string[] {
  return problems === undefined || problems === 0 ? [] : [`${String(problems)} problems`];
}

function allInterfaces(facts: HazardFacts): ReturnType<typeof faultOf> {
  const endpoints = userCreated(facts.snapshot.datastore.hostEndpoints ?? []);
  const names = endpoints.map(({ metadata }) => `HostEndpoint ${metadata.name}`);
  return isBeforeStrict(facts.installed)
    ? faultOf(
        names,
        'from v3.14 on, host endpoints for all interfaces drop traffic that no policy allows',
        'Run "netplugctl host-endpoints prepare-upgrade", or let "netplugctl upgrade apply" do it as its first step',
      )
    : faultOf(
        names,
        'host endpoints for all interfaces exist',
        'Replace them with "netplugctl host-endpoints migrate" after the upgrade if you like',
      );
}
