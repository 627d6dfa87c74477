import type { Problem } from '../../base/problem.ts';
import { decodeResource } from '../../model/decode-resource.ts';
import {
  type InstallationPool,
  type InstallationSpec,
  type PoolEncapsulation,
  poolName,
} from '../../model/installation.ts';
import { BLOCK_SIZES, type IpPool } from '../../model/ip-pool.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { Family } from '../../net/address.ts';
import { parseCidr } from '../../net/cidr.ts';

const ENCAPSULATION: PoolEncapsulation = 'VXLAN';
const MODES: Readonly<Record<PoolEncapsulation, Pick<IpPool['spec'], 'ipipMode' | 'vxlanMode'>>> = {
  VXLAN: { ipipMode: 'Never', vxlanMode: 'Always' },
  VXLANCrossSubnet: { ipipMode: 'Never', vxlanMode: 'CrossSubnet' },
  IPIP: { ipipMode: 'Always', vxlanMode: 'Never' },
  IPIPCrossSubnet: { ipipMode: 'CrossSubnet', vxlanMode: 'Never' },
  None: { ipipMode: 'Never', vxlanMode: 'Never' },
};

/** Returns the IPPool of a pool of an installation, with every default. */
export function poolOf(pool: InstallationPool, name: string): IpPool {
  const { family } = parseCidr(pool.cidr).base;
  return {
    apiVersion: API_VERSION,
    kind: 'IPPool',
    metadata: { name },
    spec: {
      cidr: pool.cidr,
      ...MODES[pool.encapsulation ?? ENCAPSULATION],
      natOutgoing: pool.natOutgoing === undefined ? family === 4 : pool.natOutgoing === 'Enabled',
      disabled: pool.disabled ?? false,
      disableBGPExport: pool.disableBGPExport ?? false,
      blockSize: pool.blockSize ?? defaultBlockSize(family, pool.cidr),
      nodeSelector: pool.nodeSelector ?? 'all()',
      allowedUses: ['Workload', 'Tunnel'],
    },
  };
}

/** Returns why no IPPool can be made of pools that the spec lists, with paths in the Installation. Pure. */
export function invalidPools({ cni, calicoNetwork }: InstallationSpec): readonly Problem[] {
  const listed = cni?.ipam?.type === 'HostLocal' ? [] : (calicoNetwork?.ipPools ?? []);
  return listed.flatMap((pool, index) =>
    problemsOfPool(poolOf(pool, poolName(listed, index)), `spec.calicoNetwork.ipPools[${String(index)}]`),
  );
}

/** Returns why the pool is invalid; the pool is at the path `at` of an Installation. Pure. */
export function problemsOfPool(pool: IpPool, at: string): readonly Problem[] {
  const decoded = decodeResource(pool);
  return 'resource' in decoded ? [] : decoded.problems.map((problem) => inInstallation(problem, at));
}

/** Returns the problem of an IPPool with its path in an Installation. */
export function inInstallation(problem: Problem, at: string): Problem {
  return { ...problem, path: problem.path.replace(/^(spec|metadata)\b/, at) };
}

/** Returns the pool of an installation, every field written, that an IPPool can be made from. */
export function installationPoolOf({ metadata, spec }: IpPool): InstallationPool {
  const { cidr, ipipMode, vxlanMode, natOutgoing, nodeSelector, blockSize, disableBGPExport, disabled } = spec;
  const modes = Object.entries(MODES).find(([, each]) => each.ipipMode === ipipMode && each.vxlanMode === vxlanMode);
  return {
    cidr,
    name: metadata.name,
    // The keys of the table.
    encapsulation: (modes?.[0] ?? 'None') as PoolEncapsulation,
    natOutgoing: natOutgoing ? 'Enabled' : 'Disabled',
    nodeSelector,
    blockSize,
    disableBGPExport,
    disabled,
  };
}

/** A block fits into its pool. */
function defaultBlockSize(family: Family, cidr: string): number {
  return Math.max(BLOCK_SIZES[family].default, parseCidr(cidr).prefixBits);
}
