import { formatBytes } from '../format-bytes.ts';
import { type DatastoreFacts, gatherDatastore } from './datastore-facts.ts';
import type { Check } from '../../../checks/check.ts';
import { topic } from './topic.ts';

const SKEW_MS = 5000;
const FULL_SHARE = 0.8;
const CRDS = 'kubectl apply -f manifests/crds.yaml';
const ROLES = 'kubectl apply -f manifests/rbac.yaml';

export const DATASTORE_CHECKS: readonly Check<DatastoreFacts>[] = [
  {
    id: 'datastore/unusable',
    severity: 'error',
    expected: 'a datastore that is reachable and authorizes the caller',
    judge: ({ failure }) =>
      failure === undefined
        ? []
        : [
            {
              found: failure.message,
              remedy: `${failure.hint ?? 'See docs/errors.md'} (${failure.code})`,
            },
          ],
  },
  {
    id: 'datastore/alarm',
    severity: 'error',
    expected: 'a datastore without an alarm',
    remedy: 'Compact and defragment etcd, or give it a larger quota; then disarm the alarm',
    command: 'etcdctl alarm disarm',
    judge: ({ report }) => (report?.alarms ?? []).map((found) => found),
  },
  {
    id: 'datastore/nearly-full',
    severity: 'warning',
    expected: 'less than 80 % of the quota of etcd in use',
    remedy: 'Compact and defragment etcd, or give it a larger quota',
    command: 'etcdctl defrag',
    judge: ({ report }) => {
      const { sizeBytes = 0, quotaBytes = 0 } = report ?? {};
      if (quotaBytes === 0 || sizeBytes < quotaBytes * FULL_SHARE) return [];
      const found = `${formatBytes(sizeBytes)} of ${formatBytes(quotaBytes)} are in use`;
      return [found];
    },
  },
  {
    id: 'datastore/clock-skew',
    severity: 'warning',
    expected: 'a clock within 5 s of the clock of the datastore',
    remedy: 'Synchronize both clocks with the same time servers',
    command: 'timedatectl set-ntp true',
    judge: ({ skewMs }) =>
      skewMs === undefined || Math.abs(skewMs) <= SKEW_MS
        ? []
        : [
            `the clock of this machine is ${String(Math.round(Math.abs(skewMs) / 1000))} s ${skewMs > 0 ? 'ahead' : 'behind'}`,
          ],
  },
  {
    id: 'datastore/kind-missing',
    severity: 'error',
    expected: 'an API server that serves every kind of this release',
    remedy: 'Apply the CustomResourceDefinitions of this release',
    command: CRDS,
    judge: ({ report }) => (report?.missingKinds ?? []).map((kind) => `the API server does not serve ${kind}`),
  },
  {
    id: 'datastore/kind-differs',
    severity: 'warning',
    expected: 'the CustomResourceDefinitions of this release',
    remedy: 'Apply the CustomResourceDefinitions of this release, unless the cluster runs a newer one',
    command: CRDS,
    judge: ({ report }) =>
      (report?.differingKinds ?? []).map((kind) => `the schema of ${kind} belongs to another release`),
  },
  {
    id: 'datastore/node-unpublished',
    severity: 'error',
    expected: 'a NetplugNode that matches the Node, for each Ready node with an agent',
    remedy: 'Start netplug-agent of this release on that node; its log has the reason why it cannot write the object',
    judge: ({ report }) =>
      (report?.unpublishedNodes ?? []).map(({ node, fault }) => ({
        found: `node "${node}": ${fault}; other nodes route by that object`,
        command: `kubectl get netplugnode ${node} -o yaml`,
      })),
  },
  {
    id: 'datastore/right-missing',
    severity: 'error',
    expected: 'the permissions of a role of manifests/rbac.yaml',
    remedy: 'Apply the roles of this release, and bind the role to this account',
    command: ROLES,
    judge: ({ report }) =>
      (report?.missingRights ?? []).map(
        ({ role, rights }) => `the caller lacks permissions of role ${role}: ${rights.join(', ')}`,
      ),
  },
  {
    id: 'datastore/unreadable',
    severity: 'warning',
    expected: 'records that netplug can decode',
    remedy: 'Correct or delete the record; netplug ignores it',
    judge: ({ unreadable }) => unreadable.map((found) => found),
  },
  {
    id: 'datastore/unlisted',
    severity: 'note',
    expected: 'an account that may list all records',
    remedy: 'Run the doctor with the account of an administrator, or an account that has the role netplug-viewer',
    command: 'netplugctl doctor --kubeconfig FILE',
    judge: ({ listError }) => (listError === undefined ? [] : [listError]),
  },
  {
    id: 'datastore/uninspected',
    severity: 'note',
    expected: 'a datastore that reports its version, size and clock',
    remedy: 'Nothing needs to be done; netplug works without these facts',
    judge: ({ inspectError }) => (inspectError === undefined ? [] : [inspectError]),
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
