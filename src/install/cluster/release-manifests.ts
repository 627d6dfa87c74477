import { yamlText } from '../../base/yaml-text.ts';
import { crdManifests } from './definitions/crd-manifests.ts';
import type { ImageDigests } from '../../base/image-digests.ts';
import { POLICY_KIND } from '../../kube/admission-policies.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { InstallationPool, InstallationSpec } from '../../model/installation.ts';
import { clusterObjects } from './cluster-objects.ts';
import { digestsOf, imageNames, KV_CERTIFICATES } from './names.ts';
import { operatorObjects } from './operator-deployment.ts';
import { settingsOf } from './settings-of.ts';
import type { ClusterDatastore, Variant } from './settings.ts';
import { metadataOf } from './pod-template.ts';

/** The manifests of a release for an installation without an operator. */
export const RELEASE_MANIFESTS = [
  { file: 'netplug.yaml', datastore: 'orch', variant: 'policy-and-networking' },
  { file: 'netplug-second-plugin.yaml', datastore: 'orch', variant: 'second-plugin' },
  { file: 'netplug-policy-only.yaml', datastore: 'orch', variant: 'policy-only' },
  { file: 'netplug-kvv3.yaml', datastore: 'kvv3', variant: 'policy-and-networking' },
  { file: 'netplug-kvv3-second-plugin.yaml', datastore: 'kvv3', variant: 'second-plugin' },
  { file: 'netplug-typha.yaml', datastore: 'orch', variant: 'policy-and-networking', typha: 'Enabled' },
] as const satisfies readonly ReleaseManifest[];

export interface ReleaseManifest extends ManifestKind {
  readonly file: string;
}

export interface ManifestKind {
  readonly datastore: ClusterDatastore['type'];
  readonly variant: Variant;
  /** Whether agents use the fan-out, where the spec does not say it. */
  readonly typha?: 'Enabled';
}

export const OPERATOR_FILE = 'netplug-operator.yaml';
export const CRDS_FILE = 'netplug-crds.yaml';

/** Texts that the user replaces in manifests for etcd. Those of the Secret are no base64, so the API server refuses them. */
export const ENDPOINTS_PLACEHOLDER = '<KV_ENDPOINTS>';
/** Beginning of the names of interfaces that another plugin makes for pods; the agent refuses to start with it. */
export const PREFIX_PLACEHOLDER = '<INTERFACE_PREFIX>';
const CERTIFICATE_PLACEHOLDERS: Readonly<Record<string, string>> = {
  'ca.crt': '<BASE64_OF_CA_CERTIFICATE>',
  'tls.crt': '<BASE64_OF_CLIENT_CERTIFICATE>',
  'tls.key': '<BASE64_OF_CLIENT_KEY>',
};

/** A manifest has replicas for a cluster of several nodes. */
const NODES = 2;
const POOLS: readonly InstallationPool[] = [{ cidr: '192.168.0.0/16' }];

const TITLES: Readonly<Record<Variant, string>> = {
  'policy-and-networking': 'policy and networking',
  'second-plugin': 'policy, and networking between nodes by a second plugin',
  'policy-only': 'policy only',
};

export interface ManifestOptions {
  /** Example: `v3.27.0`. */
  readonly release: string;
  /** Spec of an Installation; with one common pool unless it lists others. */
  readonly spec?: InstallationSpec;
  /** Endpoints as in `KV_ENDPOINTS`; a placeholder unless given. */
  readonly endpoints?: string | undefined;
  /** Of the images; those that this program was built with unless given. */
  readonly digests?: ImageDigests | undefined;
  /** Prefix as in `NETPLUG_INTERFACE_PREFIX`, for the variant `policy-only`; a placeholder unless given. */
  readonly interfacePrefix?: string | undefined;
}

/** Returns the objects of a manifest. With etcd behind TLS or unknown endpoints, a Secret has placeholders for certificates. */
export function manifestObjects(kind: ManifestKind, options: ManifestOptions): readonly Manifest[] {
  const { release, endpoints = ENDPOINTS_PLACEHOLDER, interfacePrefix = PREFIX_PLACEHOLDER } = options;
  const spec = specOf(kind, options);
  const { digests = digestsOf(release) } = options;
  const tls = isPlain(endpoints) ? 'none' : 'secret';
  const datastore: ClusterDatastore = kind.datastore === 'orch' ? { type: 'orch' } : { type: 'kvv3', endpoints, tls };
  const links = kind.variant === 'policy-only' ? { interfacePrefix } : {};
  const { variant } = kind;
  const circumstances = { release, digests, variant, datastore, defaultPools: POOLS, nodes: NODES, ...links };
  const objects = clusterObjects(settingsOf(spec, circumstances)).flatMap((stage) => stage.objects);
  if (datastore.type === 'orch' || datastore.tls === 'none') return objects;
  const secret = certificatesSecret(CERTIFICATE_PLACEHOLDERS, release);
  const place = objects.findIndex((object) => object['kind'] === 'ConfigMap');
  return objects.toSpliced(place, 0, secret);
}

function specOf({ typha }: ManifestKind, { spec = {} }: ManifestOptions): InstallationSpec {
  return typha === undefined ? spec : { ...spec, typha: { mode: typha, ...spec.typha } };
}

/** Returns the Secret with the certificates of etcd, in base64, by the keys `ca.crt`, `tls.crt` and `tls.key`. */
export function certificatesSecret(data: Readonly<Record<string, string>>, release: string): Manifest {
  const metadata = metadataOf(KV_CERTIFICATES, release);
  return { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', data };
}

/** Returns the manifest as text, for `kubectl apply --server-side --force-conflicts`. */
export function manifestText(kind: ManifestKind, options: ManifestOptions): string {
  return textOf(manifestObjects(kind, options), headOf(kind, options));
}

/** Returns the first lines of the file of a manifest. */
export function headOf(kind: ManifestKind, options: ManifestOptions): readonly string[] {
  const { variant, datastore } = kind;
  const { release, endpoints = ENDPOINTS_PLACEHOLDER, interfacePrefix } = options;
  const servers = specOf(kind, options).typha?.mode === 'Enabled' ? '; with the servers of netplug-typha' : '';
  const place = datastore === 'orch' ? 'the API of Kubernetes' : 'etcd';
  const isNamed = variant !== 'policy-only' || interfacePrefix !== undefined;
  const isComplete = isNamed && (datastore === 'orch' || isPlain(endpoints));
  return [
    `netplug ${release}: ${TITLES[variant]}${servers}. Records in ${place}.`,
    ...(isComplete ? [] : ['Replace the placeholders in <>, and check them with: netplugctl lint manifest FILE']),
  ];
}

/** Endpoints without TLS need no certificates. */
function isPlain(endpoints: string): boolean {
  return endpoints.split(',').some((url) => url.startsWith('http://'));
}

interface OperatorManifestOptions {
  readonly release: string;
  readonly registry?: string | undefined;
  readonly digests?: ImageDigests;
}

/** Returns the manifest of the operator, with the CRDs that it needs. */
export function operatorManifestText({
  release,
  registry,
  digests = digestsOf(release),
}: OperatorManifestOptions): string {
  const images = { ...imageNames(release, registry, digests), pullSecrets: [] };
  const objects = [...crdManifests(), ...operatorObjects({ release, digests, images, replicas: 1, override: {} })];
  return textOf(objects, [`netplug ${release}: the operator. Afterwards create an Installation named "default".`]);
}

/** Returns the manifest of the CRDs alone. */
export function crdsManifestText(release: string): string {
  return textOf(crdManifests(), [`netplug ${release}: CustomResourceDefinitions.`]);
}

const APPLY = 'Apply with: kubectl apply --server-side --force-conflicts -f FILE';

const ADMISSION_PART = `# Admission policies, up to the last ValidatingAdmissionPolicyBinding. To leave them out here and in upgrades, print the manifest
# with an Installation (--spec) in which spec.admissionPolicies is Disabled.
`;

/** Returns the objects as YAML documents below a comment. */
export function textOf(objects: readonly Manifest[], head: readonly string[]): string {
  const lines = [...head, APPLY].map((line) => `# ${line}\n`).join('');
  const first = objects.findIndex(({ kind }) => kind === POLICY_KIND);
  const texts = objects.map((object, index) => `${index === first ? ADMISSION_PART : ''}${documentText(object)}`);
  return `${lines}${texts.join('')}`;
}

export function documentText(manifest: Manifest): string {
  // kubectl and helm read YAML 1.1, in which `on` and `off` are no texts.
  return `---\n${yamlText(manifest, { aliasDuplicateObjects: false, version: '1.1' })}`;
}

/** Returns the text of every manifest of a release, by the name of its file. */
export function releaseFiles(release: string, digests = digestsOf(release)): Readonly<Record<string, string>> {
  return {
    ...Object.fromEntries(RELEASE_MANIFESTS.map((kind) => [kind.file, manifestText(kind, { release, digests })])),
    [OPERATOR_FILE]: operatorManifestText({ release, digests }),
    [CRDS_FILE]: crdsManifestText(release),
  };
}
