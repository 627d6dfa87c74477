import type { ImageDigests } from '../../base/image-digests.ts';
import { type InstallationPool, type InstallationSpec, poolName } from '../../model/installation.ts';
import { FAMILIES } from '../../net/address.ts';
import { parseCidr } from '../../net/cidr.ts';
import type { FieldCircumstances } from './field.ts';
import { FIELD_ROWS } from './fields.ts';
import { imageNames } from './names.ts';
import { poolOf } from './pool-of.ts';
import type { ClusterDatastore, ClusterSettings, Variant } from './settings.ts';
import { type CompleteSpec, objectOf, valueAt } from './spec-path.ts';

/** Facts on which an installation depends besides what its user writes. */
export interface Circumstances {
  readonly release: string;
  readonly variant: Variant;
  readonly datastore: ClusterDatastore;
  /** Pools for an installation that names none, from `choose-default-pool.ts`. */
  readonly defaultPools: readonly InstallationPool[];
  /** Number of nodes: a second replica needs a second node. */
  readonly nodes: number;
  readonly interfacePrefix?: string;
  /** Those of the images of the release; those that this program was built with unless given. */
  readonly digests?: ImageDigests;
  /** Whether the API server evaluates admission policies; it does unless told otherwise. */
  readonly servesAdmission?: boolean;
  /** Number of servers of the fan-out, in place of the one that the spec has. */
  readonly typhaReplicas?: number;
}

/** Returns the settings of an installation, with every default. The spec has been validated. Pure. */
export function settingsOf(written: InstallationSpec, circumstances: Circumstances): ClusterSettings {
  const {
    release,
    variant,
    datastore,
    defaultPools,
    nodes,
    interfacePrefix,
    servesAdmission = true,
    typhaReplicas,
  } = circumstances;
  const hasPools = variant === 'policy-and-networking' && written.cni?.ipam?.type !== 'HostLocal';
  const listed = written.calicoNetwork?.ipPools ?? (hasPools ? defaultPools : []);
  const families = FAMILIES.filter((family) => listed.some(({ cidr }) => parseCidr(cidr).base.family === family));
  const pools = hasPools ? listed.map((pool, index) => poolOf(pool, poolName(listed, index))) : [];
  const spec = completeSpec(written, {
    hasPools,
    listed,
    pools,
    nodes,
    servesAdmission,
    datastore: datastore.type,
    typhaReplicas,
  });
  return {
    release,
    variant,
    datastore,
    spec,
    images: { ...imageNames(release, spec.registry, circumstances.digests), pullSecrets: spec.imagePullSecrets },
    families: families.length === 0 ? [4] : families,
    pools,
    interfacePrefix,
    areAgentsHeld: false,
    isOperated: false,
  };
}

function completeSpec(spec: InstallationSpec, circumstances: FieldCircumstances): CompleteSpec {
  const values = FIELD_ROWS.map(([path, { byDefault, complete }]) => {
    const written = valueAt(spec, path);
    return [path, complete === undefined ? (written ?? byDefault) : complete(written, circumstances)] as const;
  });
  // Every path has a row, whose values have the type of the field.
  return objectOf(values) as CompleteSpec;
}
