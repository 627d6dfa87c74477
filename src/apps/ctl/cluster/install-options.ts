import type { InstallMethod } from '../../../install/cluster/checks/preflight-facts.ts';
import type { Variant } from '../../../install/cluster/settings.ts';
import type { InstallationPool, InstallationSpec } from '../../../model/installation.ts';
import { NetplugError } from '../../../base/errors.ts';
import type { ConfirmMode } from './confirm.ts';

export interface ClusterInstallOptions {
  readonly method: InstallMethod;
  readonly datastore: 'orch' | 'kvv3' | undefined;
  readonly variant: Variant;
  readonly registry: string | undefined;
  /** Prefix of interface names, as in `NETPLUG_INTERFACE_PREFIX`. */
  readonly interfacePrefix: string | undefined;
  readonly pools: readonly InstallationPool[] | undefined;
  /** The spec of the Installation in the file of `--spec`. */
  readonly spec: InstallationSpec | undefined;
  readonly proof: 'run' | 'skip';
  readonly mode: ConfirmMode;
}

/** Refuses what an operator cannot install. @throws cli/usage */
export function refuseCombination(
  {
    method,
    variant,
    pools,
    interfacePrefix,
  }: Pick<ClusterInstallOptions, 'method' | 'variant' | 'pools' | 'interfacePrefix'>,
  datastore: 'orch' | 'kvv3',
): void {
  if (method !== 'manifest' && variant !== 'policy-and-networking') {
    throw refusedOption(
      `--variant ${variant}`,
      `the method ${method} installs policy and networking`,
      'Use --method manifest',
    );
  }
  if (method !== 'manifest' && datastore === 'kvv3') {
    throw refusedOption(
      'etcd as datastore',
      `the operator keeps its records in the API of Kubernetes`,
      'Use --method manifest, or --datastore orch',
    );
  }
  if (datastore === 'kvv3' && variant === 'policy-only') {
    throw refusedOption('--variant policy-only', 'it needs the API of Kubernetes as datastore', 'Add --datastore orch');
  }
  if (variant === 'policy-only' && interfacePrefix === undefined) {
    throw refusedOption(
      '--variant policy-only',
      'it is not known which interfaces are those of pods',
      'Name the beginning of their names with --interface-prefix',
    );
  }
  if (variant !== 'policy-only' && interfacePrefix !== undefined) {
    throw refusedOption('--interface-prefix', 'netplug makes the interfaces itself', 'Add --variant policy-only');
  }
  if (variant === 'policy-only' && pools !== undefined) {
    throw refusedOption('--pool', 'another plugin assigns addresses in this variant', 'Leave it out');
  }
}

/** Returns the error for an option that cannot be used, with why not. */
export function refusedOption(option: string, why: string, hint: string): NetplugError {
  return new NetplugError('cli/usage', `Cannot use ${option}: ${why}`, { hint });
}
