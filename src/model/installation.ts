import * as v from 'valibot';
import { FAMILIES } from '../net/address.ts';
import { cidrsOverlap, parseCidr } from '../net/cidr.ts';
import { column, jointRules, type KindDeclaration, nameColumn, type Refuse } from './kind-info.ts';
import type { PartialOutput } from './read-schema.ts';
import type { Resource } from './resource.ts';
import { CidrText } from './spec-types.ts';

const Ipam = v.pipe(
  v.looseObject(
    {
      type: v.optional(
        v.pipe(
          v.picklist(['netplug-ipam', 'HostLocal'], '"netplug-ipam" or "HostLocal"'),
          v.description('Address manager; "netplug-ipam" unless set.'),
        ),
      ),
    },
    'an object with type',
  ),
  v.readonly(),
);

const Cni = v.pipe(
  v.looseObject(
    {
      type: v.optional(
        v.pipe(v.picklist(['netplug'], '"netplug"'), v.description('The plugin; "netplug" unless set.')),
      ),
      ipam: v.optional(v.pipe(Ipam, v.description('Where addresses of pods come from.'))),
    },
    'an object with type and ipam',
  ),
  v.readonly(),
);

const Pool = v.pipe(
  v.looseObject({ cidr: v.pipe(CidrText, v.description('Range of the pool.')) }, 'an object with cidr'),
  v.readonly(),
);

const Network = v.pipe(
  v.looseObject(
    {
      ipPools: v.optional(
        v.pipe(
          v.array(Pool, 'an array of objects with cidr'),
          v.readonly(),
          v.description(
            "Initial pools. With `HostLocal`, a pool of an address family makes addresses of that family come from the node's pod CIDR.",
          ),
        ),
      ),
    },
    'an object with ipPools',
  ),
  v.readonly(),
);

const INSTALLATION_FIELDS = {
  cni: v.optional(v.pipe(Cni, v.description('The plugin on the nodes.'))),
  calicoNetwork: v.optional(v.pipe(Network, v.description('The network of the pods.'))),
};

export type InstallationSpec = Readonly<v.InferOutput<v.ObjectSchema<typeof INSTALLATION_FIELDS, undefined>>>;
export type Installation = Resource<'Installation', InstallationSpec>;

export const INSTALLATION: KindDeclaration<Installation> = {
  plural: 'installations',
  shortNames: ['inst'],
  scope: 'cluster',
  about: 'The installation that the operator creates.',
  enforced: false,
  writtenBy: 'user',
  names: 'default',
  columns: [
    nameColumn(),
    column('CNI', 'spec.cni.type', ({ spec }) => spec.cni?.type ?? ''),
    column('IPAM', 'spec.cni.ipam.type', ({ spec }) => spec.cni?.ipam?.type ?? ''),
  ],
  fields: INSTALLATION_FIELDS,
  check: jointRules(INSTALLATION_FIELDS, checkPools),
  rules: ['Pools do not overlap; with `HostLocal` there is at most one of each address family.'],
  example: {
    metadata: { name: 'default' },
    spec: {
      cni: { type: 'netplug', ipam: { type: 'HostLocal' } },
      calicoNetwork: { ipPools: [{ cidr: '10.244.0.0/16' }, { cidr: '2001:db8:244::/48' }] },
    },
  },
};

function checkPools({ cni, calicoNetwork }: PartialOutput<typeof INSTALLATION_FIELDS>, refuse: Refuse): void {
  const pools = (calicoNetwork?.ipPools ?? []).map(({ cidr }) => parseCidr(cidr));
  for (const [index, pool] of pools.entries()) {
    const other = pools.slice(0, index).findIndex((earlier) => cidrsOverlap(earlier, pool));
    const at = `calicoNetwork.ipPools[${String(index)}].cidr`;
    if (other !== -1) refuse(at, `overlaps calicoNetwork.ipPools[${String(other)}].cidr`);
  }
  if (cni?.ipam?.type !== 'HostLocal') return;
  for (const family of FAMILIES) {
    const isOne = pools.filter(({ base }) => base.family === family).length <= 1;
    if (!isOne)
      refuse('calicoNetwork.ipPools', `has several IPv${String(family)} pools; with "HostLocal" allowed is one`);
  }
}
