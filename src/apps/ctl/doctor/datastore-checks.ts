import { formatBytes } from '../format-bytes.ts';
import { type DatastoreFacts, gatherDatastore } from './datastore-facts.ts';
import { type Check, topic } from './topic.ts';

const SKEW_MS = 5000;
const FULL_SHARE = 0.8;
const CRDS = 'kubectl apply -f manifests/crds.yaml';
const ROLES = 'kubectl apply -f manifests/rbac.yaml';

export const DATASTORE_CHECKS: readonly Check<DatastoreFacts>[] = [
  {
    id: 'datastore/unusable',
    severity: 'error',
    expected: 'a datastore that answers and accepts the caller',
    judge: ({ trouble, from }) =>
      trouble === undefined
        ? []
        : [
            {
              found: trouble.message,
              remedy: `${trouble.hint ?? 'See docs/errors.md'} (${trouble.code}; connection from ${from ?? 'the environment'})`,
            },
          ],
  },
  {
    id: 'datastore/alarm',
    severity: 'error',
    expected: 'a datastore without an alarm',
    judge: ({ report }) =>
      (report?.alarms ?? []).map((found) => ({
        found,
        remedy: 'Compact and defragment etcd, or give it a larger quota; then take the alarm back',
        command: 'etcdctl alarm disarm',
      })),
  },
  {
    id: 'datastore/nearly-full',
    severity: 'warning',
    expected: 'less than four fifths of its quota in use',
    judge: ({ report }) => {
      const { sizeBytes = 0, quotaBytes = 0 } = report ?? {};
      if (quotaBytes === 0 || sizeBytes < quotaBytes * FULL_SHARE) return [];
      const found = `${formatBytes(sizeBytes)} of ${formatBytes(quotaBytes)} are in use`;
      return [{ found, remedy: 'Compact and defragment etcd, or give it a larger quota', command: 'etcdctl defrag' }];
    },
  },
  {
    id: 'datastore/clock-skew',
    severity: 'warning',
    expected: 'a clock that agrees with that of the datastore within 5 s',
    judge: ({ skewMs }) =>
      skewMs === undefined || Math.abs(skewMs) <= SKEW_MS
        ? []
        : [
            {
              found: `the clock of this machine is ${String(Math.round(Math.abs(skewMs) / 1000))} s ${skewMs > 0 ? 'ahead' : 'behind'}`,
              remedy: 'Have both set their clocks by the same servers',
              command: 'timedatectl set-ntp true',
            },
          ],
  },
  {
    id: 'datastore/kind-missing',
    severity: 'error',
    expected: 'every kind of this release known to the API',
    judge: ({ report }) =>
      (report?.missingKinds ?? []).map((kind) => ({
        found: `the API does not know ${kind}`,
        remedy: 'Apply the definitions of this release',
        command: CRDS,
      })),
  },
  {
    id: 'datastore/kind-differs',
    severity: 'warning',
    expected: 'definitions of kinds as this release makes them',
    judge: ({ report }) =>
      (report?.differingKinds ?? []).map((kind) => ({
        found: `the schema of ${kind} is that of another release`,
        remedy: 'Apply the definitions of this release, unless the cluster has a newer one',
        command: CRDS,
      })),
  },
  {
    id: 'datastore/node-unpublished',
    severity: 'error',
    expected: 'for each Ready node with an agent a NetplugNode that agrees with the Node',
    judge: ({ report }) =>
      (report?.unpublishedNodes ?? []).map(({ node, fault }) => ({
        found: `node "${node}": ${fault}, and other nodes route to it by what is there`,
        remedy: 'Start netplug-agent of this release on that node, and read why it cannot write in its log',
        command: `kubectl get netplugnode ${node} -o yaml`,
      })),
  },
  {
    id: 'datastore/right-missing',
    severity: 'error',
    expected: 'the rights of a role of manifests/rbac.yaml',
    judge: ({ report }) =>
      (report?.missingRights ?? []).map(({ role, rights }) => ({
        found: `of role ${role} are missing: ${rights.join(', ')}`,
        remedy: 'Apply the roles of this release, and bind the role to whoever this is',
        command: ROLES,
      })),
  },
  {
    id: 'datastore/unreadable',
    severity: 'warning',
    expected: 'records that can be understood',
    judge: ({ unreadable }) =>
      unreadable.map((found) => ({ found, remedy: 'Correct or delete the record; netplug passes over it' })),
  },
  {
    id: 'datastore/unlisted',
    severity: 'note',
    expected: 'an account that may list all records',
    judge: ({ unlisted }) =>
      unlisted === undefined
        ? []
        : [
            {
              found: unlisted,
              remedy: 'Run the doctor with the account of an administrator, or one with the role netplug-viewer',
              command: 'netplugctl doctor --kubeconfig FILE',
            },
          ],
  },
  {
    id: 'datastore/uninspected',
    severity: 'note',
    expected: 'a datastore that tells its version, size and clock',
    judge: ({ silence }) =>
      silence === undefined ? [] : [{ found: silence, remedy: 'Nothing needs to be done: it is used all the same' }],
  },
];

export const DATASTORE = topic({
  area: 'datastore',
  scope: 'cluster',
  gather: gatherDatastore,
  measure: ({ type, from, latencyMs, report }) => [
    ...(type === undefined ? [] : [`${type} (${from ?? ''})`]),
    ...(latencyMs === undefined ? [] : [`answers in ${latencyMs.toFixed(1)} ms`]),
    ...(report === undefined ? [] : [report.server]),
    ...(report?.sizeBytes === undefined ? [] : [formatBytes(report.sizeBytes)]),
  ],
  checks: DATASTORE_CHECKS,
});
