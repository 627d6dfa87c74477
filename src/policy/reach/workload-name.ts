import { isReservedLabel } from '../../model/policy-names.ts';
import type { Labels } from '../../model/selector.ts';
import type { PolicyEndpoint } from '../resolved-policy.ts';

/** Labels that say which workload a pod belongs to, the most usual ones first. */
const NAMES: readonly (readonly string[])[] = [
  ['app.kubernetes.io/name', 'app.kubernetes.io/component'],
  ['app'],
  ['k8s-app'],
  ['component'],
  ['name'],
];
/** Labels that controllers set on single pods or revisions. */
const CHANGING: readonly string[] = [
  'pod-template-hash',
  'controller-revision-hash',
  'pod-template-generation',
  'statefulset.kubernetes.io/pod-name',
  'apps.kubernetes.io/pod-index',
  'batch.kubernetes.io/controller-uid',
  'batch.kubernetes.io/job-name',
  'batch.kubernetes.io/job-completion-index',
  'controller-uid',
  'job-name',
];

/** The pods that users regard as one: those of one Deployment, for example. */
export interface Workload {
  readonly namespace: string;
  /** Empty for a pod without labels of its own. */
  readonly labels: Labels;
  /** Example: `app=web`; the name of the pod when it has no labels. */
  readonly name: string;
}

/** Returns the workload of a pod, as far as labels tell. */
export function workloadOf({ namespace = '', labels, shown }: PolicyEndpoint): Workload {
  const own = Object.entries(labels).filter(([label]) => !isReservedLabel(label) && !CHANGING.includes(label));
  const known = NAMES.map((names) => own.filter(([label]) => names.includes(label))).find(({ length }) => length > 0);
  const used = (known ?? own).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const name = used.map(([label, value]) => `${label}=${value}`).join(',');
  return { namespace, labels: Object.fromEntries(used), name: name === '' ? shown.slice(namespace.length + 1) : name };
}
