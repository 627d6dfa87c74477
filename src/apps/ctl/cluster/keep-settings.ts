import { NetplugError } from '../../../base/errors.ts';
import type { PreflightFacts } from '../../../install/cluster/checks/preflight-facts.ts';
import type { InstallationPool, InstallationSpec } from '../../../model/installation.ts';
import { FAMILIES, type Family } from '../../../net/address.ts';
import { tryReadCidr } from '../../../net/cidr.ts';
import type { ClusterInstallOptions } from './install-options.ts';

type Changes = Pick<ClusterInstallOptions, 'method' | 'registry' | 'pools'>;

/** Returns the settings of the installation that runs, with what the command line sets in their place. @throws install/refused */
export function withChanges(
  { registry, ...spec }: InstallationSpec,
  { method, registry: chosen, pools: named }: Changes,
  { pools: existing }: Pick<PreflightFacts, 'pools'>,
): InstallationSpec {
  const { ipPools, ...network } = spec.calicoNetwork ?? {};
  const images = chosen ?? registry;
  const pools =
    named === undefined || method === 'manifest' ? (named ?? ipPools) : withOthers(named, ipPools, existing);
  return {
    ...spec,
    ...(images === undefined ? {} : { registry: images }),
    ...(spec.calicoNetwork === undefined && pools === undefined
      ? {}
      : { calicoNetwork: { ...network, ...(pools === undefined ? {} : { ipPools: pools }) } }),
  };
}

/** Returns the address families of pods: those of the installation that runs, and those of the pools that the user names. */
export function keptFamilies({ calicoNetwork }: InstallationSpec, named: readonly Family[]): readonly Family[] {
  const running = familiesOf(calicoNetwork?.ipPools ?? []);
  return FAMILIES.filter((family) => named.includes(family) || running.includes(family));
}

/** An Installation that lists pools has the address families of these alone, so pools of the other family stay listed. */
function withOthers(
  named: readonly InstallationPool[],
  listed: readonly InstallationPool[] | undefined,
  existing: PreflightFacts['pools'],
): readonly InstallationPool[] {
  const families = familiesOf(named);
  const isOther = (pool: { readonly cidr: string }): boolean =>
    familiesOf([pool]).some((each) => !families.includes(each));
  if (listed !== undefined) return [...named, ...listed.filter(isOther)];
  const left = existing.find(isOther);
  if (left === undefined) return named;
  throw new NetplugError(
    'install/refused',
    `Cannot use --pool ${named.map(({ cidr }) => cidr).join(' --pool ')}: pods also have addresses of "${left.name}" (${left.cidr}), and would get no more of this family`,
    { hint: 'List every pool, with all of its fields, in an Installation, and give it with --spec' },
  );
}

function familiesOf(pools: readonly { readonly cidr: string }[]): readonly Family[] {
  return pools.flatMap(({ cidr }) => tryReadCidr(cidr)?.cidr.base.family ?? []);
}
