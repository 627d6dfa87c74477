import { ADDRESSES } from './address-checks.ts';
import { ADMISSION } from './admission-checks.ts';
import { AGENT } from './agent-checks.ts';
import { BGP } from './bgp-checks.ts';
import { CONFIG } from './config-checks.ts';
import { CONTROLLERS_TOPIC } from './controller-checks.ts';
import { CREDENTIALS } from './credential-checks.ts';
import { DATASTORE } from './datastore-checks.ts';
import { FILE_TOPIC } from './file-checks.ts';
import { KERNEL } from './kernel-checks.ts';
import { LEAKS } from './leak-checks.ts';
import { ORDERS } from './order-checks.ts';
import { ORCHESTRATOR } from './orchestrator-checks.ts';
import { POLICIES } from './policy-checks.ts';
import { POOL_TOPIC } from './pool-checks.ts';
import { REPORTS } from './report-checks.ts';
import { MESH } from './sidecar-checks.ts';
import type { CheckInfo } from '../../../checks/check.ts';
import type { Topic } from './topic.ts';
import { TYPHA_CLUSTER } from './typha-cluster-checks.ts';
import { TYPHA_NODE } from './typha-node-checks.ts';
import { VERSIONS } from './version-checks.ts';

/** All topics, in the order of the report. */
export const TOPICS: readonly Topic[] = [
  CONFIG,
  ADMISSION,
  FILE_TOPIC,
  AGENT,
  TYPHA_NODE,
  KERNEL,
  BGP,
  ORCHESTRATOR,
  CREDENTIALS,
  DATASTORE,
  VERSIONS,
  REPORTS,
  CONTROLLERS_TOPIC,
  TYPHA_CLUSTER,
  POLICIES,
  ORDERS,
  MESH,
  POOL_TOPIC,
  ADDRESSES,
  LEAKS,
];

/** The finding about an area whose facts could not be gathered. */
export const UNEXAMINED: Omit<CheckInfo, 'id'> = {
  severity: 'warning',
  expected: 'an area whose facts can be gathered',
};

export function unexaminedId(area: string): string {
  return `${area}/unexamined`;
}
