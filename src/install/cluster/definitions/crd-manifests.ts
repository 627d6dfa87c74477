import { stringify } from 'yaml';
import { VERSION as RELEASE } from '../../../base/version.ts';
import { KINDS } from '../../../model/kinds.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { NETPLUG_NODE, NETPLUG_NODES } from '../../../model/netplug-node.ts';
import { RELEASE_LABEL } from '../names.ts';
import {
  blockSchema,
  CUSTOM_KINDS,
  type CustomKind,
  endpointSchema,
  resourceSchema,
  type StructuralSchema,
} from './crd-schemas.ts';

interface PrinterColumn {
  readonly name: string;
  readonly type: string;
  readonly jsonPath: string;
  /** Above 0 only the wide table has it. */
  readonly priority?: number;
}

interface Definition {
  readonly kind: string;
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly scope: 'cluster' | 'namespace';
  readonly schema: StructuralSchema;
  readonly columns: readonly PrinterColumn[];
}

const [GROUP = '', VERSION = ''] = API_VERSION.split('/');
/** `kubectl get netplug` lists all kinds of the category. */
const CATEGORY = 'netplug';
const LABELS = { 'app.kubernetes.io/part-of': 'netplug', [RELEASE_LABEL]: RELEASE };
const AGE: PrinterColumn = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };

const BLOCK_COLUMNS: readonly PrinterColumn[] = [
  { name: 'CIDR', type: 'string', jsonPath: '.spec.cidr' },
  { name: 'Node', type: 'string', jsonPath: '.spec.node' },
  { name: 'Free', type: 'string', jsonPath: '.spec.free', priority: 1 },
];

const ENDPOINT_COLUMNS: readonly PrinterColumn[] = [
  { name: 'Namespace', type: 'string', jsonPath: '.spec.namespace' },
  { name: 'Pod', type: 'string', jsonPath: '.spec.pod' },
  { name: 'Node', type: 'string', jsonPath: '.spec.node' },
  { name: 'Networks', type: 'string', jsonPath: '.spec.ipNetworks' },
];

const NODE_COLUMNS: readonly PrinterColumn[] = [
  { name: 'IPv4', type: 'string', jsonPath: '.spec.bgp.ipv4Address' },
  { name: 'IPv6', type: 'string', jsonPath: '.spec.bgp.ipv6Address' },
  { name: 'ASN', type: 'integer', jsonPath: '.spec.bgp.asNumber', priority: 1 },
  { name: 'Pod-CIDRs', type: 'string', jsonPath: '.spec.podCIDRs', priority: 1 },
];

let made: readonly Manifest[] | undefined;

/**
 * Returns the definitions of every custom resource of netplug, made from the declarations that netplug reads them by. They are
 * made once, because a rendering takes milliseconds and every rendering of an installation has them.
 */
export function crdManifests(): readonly Manifest[] {
  made ??= makeManifests();
  return made;
}

function makeManifests(): readonly Manifest[] {
  return [
    crd({
      kind: 'IPBlock',
      plural: 'ipblocks',
      shortNames: ['ipb'],
      scope: 'cluster',
      schema: blockSchema(),
      columns: BLOCK_COLUMNS,
    }),
    crd({
      kind: 'WorkloadEndpoint',
      plural: 'workloadendpoints',
      shortNames: ['wep'],
      scope: 'cluster',
      schema: endpointSchema(),
      columns: ENDPOINT_COLUMNS,
    }),
    crd({
      kind: NETPLUG_NODE,
      plural: NETPLUG_NODES.plural,
      shortNames: ['npn'],
      scope: 'cluster',
      schema: resourceSchema('Node'),
      columns: NODE_COLUMNS,
    }),
    ...CUSTOM_KINDS.map((kind) => {
      const { plural, shortNames, scope } = KINDS[kind];
      return crd({ kind, plural, shortNames, scope, schema: resourceSchema(kind), columns: columnsOf(kind) });
    }),
  ];
}

/** The manifest file. */
export function crdManifestFile(): string {
  const note = '# Made by scripts/check-generated.ts from src/model: change the declarations there.\n';
  return `${note}${crdManifests()
    .map((manifest) => `---\n${stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false })}`)
    .join('')}`;
}

function crd({ kind, plural, shortNames, scope, schema, columns }: Definition): Manifest {
  const singular = kind.toLowerCase();
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${GROUP}`, labels: LABELS },
    spec: {
      group: GROUP,
      scope: scope === 'cluster' ? 'Cluster' : 'Namespaced',
      names: { kind, listKind: `${kind}List`, plural, singular, shortNames: [...shortNames], categories: [CATEGORY] },
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: schema },
          ...(propertyOf(propertyOf(schema, 'properties'), 'status') === undefined
            ? {}
            : { subresources: { status: {} } }),
          additionalPrinterColumns: [...columns, AGE],
        },
      ],
    },
  };
}

/** The columns that netplugctl shows; the name is kubectl's own first one. */
function columnsOf(kind: CustomKind): PrinterColumn[] {
  return KINDS[kind].columns.flatMap(({ title, path, isWide }) =>
    path === undefined
      ? []
      : [
          {
            name: title,
            type: columnType(kind, path),
            jsonPath: `.${path}`,
            ...(isWide ? { priority: 1 } : {}),
          },
        ],
  );
}

function columnType(kind: CustomKind, path: string): string {
  // Each step of a schema is an object of properties; what is none ends the way.
  let schema: unknown = resourceSchema(kind);
  for (const key of path.split('.')) schema = propertyOf(propertyOf(schema, 'properties'), key);
  const type = propertyOf(schema, 'type');
  return type === 'integer' || type === 'boolean' || type === 'number' ? type : 'string';
}

function propertyOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, key)?.value : undefined;
}
