import { didYouMean, nearMiss } from '../base/near-miss.ts';
import { at, type Findings } from '../base/problem.ts';

/** Keys of the CNI standard and of its runtimes that may stand in any plugin's configuration. */
const CNI_KEYS = new Set([
  'prevResult',
  'runtimeConfig',
  'capabilities',
  'args',
  'cniVersions',
  'disableCheck',
  'disableGC',
  'loadOnlyInlinedPlugins',
  'dns',
  'ipMasq',
]);

/** What people who come from the closest peers write, and what it is called here. */
const PEER_KEYS: ReadonlyMap<string, string> = new Map([
  ['etcd_endpoints', 'kv_endpoints'],
  ['etcd_discovery_srv', 'kv_discovery_srv'],
  ['etcd_key_file', 'kv_key_file'],
  ['etcd_cert_file', 'kv_cert_file'],
  ['etcd_ca_cert_file', 'kv_ca_cert_file'],
  ['etcd_authority', 'kv_authority'],
  ['etcd_scheme', 'kv_scheme'],
  ['kubernetes', 'orch'],
  ['hostname', 'nodename'],
  ['kubeconfig', 'orchconfig'],
  ['k8s_api_root', 'orch_api_root'],
]);

/** Whose keys a configuration may hold besides ours: an address manager also sees those of the main plugin. */
type Strictness = 'ours-alone' | 'beside-others';

export interface KnownKeys {
  readonly keys: readonly string[];
  readonly path: string;
  readonly strictness: Strictness;
}

/**
 * A key that is nearly one of ours is a slip and refused, because ignoring it would quietly use a default. A key that
 * resembles nothing of ours is only worth a warning.
 */
export function checkKeys(
  raw: Readonly<Record<string, unknown>>,
  { keys, path, strictness }: KnownKeys,
  findings: Findings,
): void {
  for (const key of Object.keys(raw)) {
    if (keys.includes(key) || (path === '' && isCniKey(key))) continue;
    const ours = PEER_KEYS.get(key);
    const meant = ours !== undefined && keys.includes(ours) ? ours : nearMiss(key, keys);
    const where = at(path, key);
    if (strictness === 'beside-others') {
      if (meant !== undefined) findings.warnings.push(`Unknown key ${where} is ignored: ${didYouMean(meant)}`);
    } else if (meant === undefined) {
      findings.warnings.push(`Unknown key ${where} is ignored`);
    } else {
      const hint = didYouMean(meant);
      findings.problems.push({ path: where, message: 'is not a key of netplug', hint, code: 'netconf/invalid' });
    }
  }
}

function isCniKey(key: string): boolean {
  return CNI_KEYS.has(key) || key.startsWith('cni.dev/');
}
