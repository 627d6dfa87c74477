import { CLUSTER_WIDE_KINDS } from '../../install/cluster/cluster-wide-kinds.ts';
import { OPERATOR, SYSTEM_NAMESPACE } from '../../install/cluster/names.ts';
import { findReference } from '../../kube/objects/reference.ts';
import { INSTALLATION_NAME } from '../../model/installation.ts';
import type { Manifest } from '../../model/manifest.ts';
import { listIn, recordIn, textIn } from './objects-in.ts';

/** Kinds of netplug's namespace whose objects are found by the label of netplug. */
export const NAMESPACED = [
  'ServiceAccount',
  'Secret',
  'ConfigMap',
  'Role',
  'RoleBinding',
  'PodDisruptionBudget',
  'DaemonSet',
  'Deployment',
];
/** Kinds of which every object concerns the installation. */
export const WHOLE = ['Installation', 'APIServer'];

const OWN_NAME = /^netplug(-|$)/;
const CHART_RECORD = /^sh\.helm\.release\.v1\.[^/]+$/;

/** Reports whether kind and name are those of an object of netplug, and a binding gives only netplug's roles to its accounts. */
export function isOwnObject(object: Manifest): boolean {
  const which = findReference(object);
  if (which === undefined) return false;
  const { kind, namespace, name } = which;
  if (WHOLE.includes(kind)) return name === INSTALLATION_NAME;
  if (kind === 'Namespace') return name === SYSTEM_NAMESPACE;
  if (!OWN_NAME.test(name)) return false;
  if (NAMESPACED.includes(kind) ? namespace !== SYSTEM_NAMESPACE : !CLUSTER_WIDE_KINDS.includes(kind)) return false;
  return !/^(Cluster)?RoleBinding$/.test(kind) || bindsOwn(object);
}

/** Reports whether it is a Secret with a record of helm. */
export function isChartRecord(object: Manifest): boolean {
  const { kind, name } = findReference(object) ?? {};
  return kind === 'Secret' && name !== undefined && object['type'] === 'helm.sh/release.v1' && CHART_RECORD.test(name);
}

/** The account of the operator alone may be in a namespace of its own. */
function bindsOwn(binding: Manifest): boolean {
  const isOwnRole = OWN_NAME.test(textIn(recordIn(binding, 'roleRef'), 'name'));
  return (
    isOwnRole &&
    listIn(binding, 'subjects').every(
      (subject) =>
        textIn(subject, 'kind') === 'ServiceAccount' &&
        OWN_NAME.test(textIn(subject, 'name')) &&
        (textIn(subject, 'namespace') === SYSTEM_NAMESPACE || textIn(subject, 'name') === OPERATOR),
    )
  );
}
