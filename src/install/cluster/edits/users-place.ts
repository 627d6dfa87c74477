import { ENVIRONMENT } from '../../../config/environment.ts';
import type { FieldStep } from '../../../kube/objects/diff.ts';
import type { ManifestEdit } from './edit.ts';

/** Keys whose values come from users: manifests of releases leave them empty, or have a default that fits most clusters. */
const USERS_KEYS = new Set([
  'resources',
  'tolerations',
  'nodeSelector',
  'affinity',
  'annotations',
  'imagePullSecrets',
  'replicas',
  'priorityClassName',
  'updateStrategy',
]);
/** Fields of the network configuration that clusters differ in. */
const CONFLIST_KEYS = new Set([
  'kv_endpoints',
  'mtu',
  'log_level',
  'log_file_path',
  'log_file_max_size',
  'log_file_max_age',
  'log_file_max_count',
  'container_settings',
  'readiness_gates',
  'num_queues',
  'feature_control',
  'policy',
  'ipam',
  'plugins',
]);
const NETPLUG_PREFIX = 'NETPLUG_';

/**
 * Reports whether a difference from the manifest of another release is certainly an edit of the user: the release cannot have
 * changed it. Other differences can be told apart only with the unedited manifest of that release.
 */
export function isUsersPlace({ object, path, was, is }: ManifestEdit): boolean {
  if (path.length === 0) return was === undefined;
  if (object.startsWith('Secret ') || object.startsWith('IPPool ')) return is !== undefined;
  const keys = path.map((step) => (typeof step === 'string' ? step : ''));
  if (keys.some((key) => USERS_KEYS.has(key))) return is !== undefined;
  if (endsWith(path, ['image', 'registry'])) return true;
  if (keys[0] === 'data') return is !== undefined && keys.some((key) => CONFLIST_KEYS.has(key));
  const variable = variableOf(path);
  if (variable === undefined) return false;
  return is !== undefined && (Object.hasOwn(ENVIRONMENT, variable) || !variable.startsWith(NETPLUG_PREFIX));
}

/** Returns the name of the environment variable that the path leads to or into. */
function variableOf(path: readonly FieldStep[]): string | undefined {
  const step = path[path.indexOf('env') + 1];
  return path.includes('env') && typeof step === 'object' && 'key' in step ? step.is : undefined;
}

function endsWith(path: readonly FieldStep[], end: readonly string[]): boolean {
  return end.every((key, index) => path[path.length - end.length + index] === key);
}
