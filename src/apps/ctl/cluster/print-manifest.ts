import { VERSION } from '../../../base/version.ts';
import { isEndpointUrl, URL_RULE } from '../../../config/url.ts';
import { editLine } from '../../../install/cluster/edits/edit.ts';
import { type EarlierManifest, reapplyEdits } from '../../../install/cluster/edits/like.ts';
import { idleFields } from '../../../install/cluster/idle-fields.ts';
import {
  crdsManifestText,
  headOf,
  type ManifestKind,
  type ManifestOptions,
  manifestText,
  operatorManifestText,
  RELEASE_MANIFESTS,
  textOf,
} from '../../../install/cluster/release-manifests.ts';
import type { Variant } from '../../../install/cluster/settings.ts';
import {
  INSTALLATION_NAME,
  type InstallationPool,
  type InstallationSpec,
  poolName,
} from '../../../model/installation.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { problemsError } from '../../../base/problem.ts';
import { readDocuments } from '../documents.ts';
import { readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { refusedOption } from './install-options.ts';
import { readInstallation, withFlags } from './read-installation.ts';
import { refuseFanOut } from './refuse-fan-out.ts';

export const MANIFEST_SUBJECTS = ['network', 'operator', 'crds'] as const;
export type ManifestSubject = (typeof MANIFEST_SUBJECTS)[number];

export interface PrintOptions {
  readonly what: ManifestSubject;
  readonly datastore: 'orch' | 'kvv3' | undefined;
  readonly variant: Variant | undefined;
  readonly registry: string | undefined;
  readonly pool: readonly string[];
  /** File with an Installation. */
  readonly spec: string | undefined;
  readonly kvEndpoints: string | undefined;
  readonly interfacePrefix: string | undefined;
  readonly like: string | undefined;
  readonly pristine: string | undefined;
}

/** Prints a manifest. Returns 1 when an edit of an earlier manifest was not made. @throws cli/usage */
export async function printManifest(context: Context, options: PrintOptions): Promise<Status> {
  const { what, registry, like, kvEndpoints, spec: file } = options;
  const { io } = context;
  const release = VERSION;
  if (what !== 'network') {
    refuseOptions(options);
    io.stdout(what === 'operator' ? operatorManifestText({ release, registry }) : crdsManifestText(release));
    return 0;
  }
  if (options.pristine !== undefined && like === undefined) {
    throw refusedOption(
      '--pristine',
      'it is the manifest that --like is compared with',
      'Give the edited manifest with --like',
    );
  }
  checkKvEndpoints(kvEndpoints);
  const written = file === undefined ? {} : await readInstallation(context, file);
  const spec = withFlags(written, { pools: readPoolFlags(options.pool), registry });
  const wanted = {
    ...(options.datastore === undefined ? {} : { datastore: options.datastore }),
    ...(options.variant === undefined ? {} : { variant: options.variant }),
  };
  const kind = findKind(wanted, like === undefined ? 'with-defaults' : 'any');
  const manifest: ManifestOptions = {
    release,
    spec,
    endpoints: kvEndpoints,
    interfacePrefix: options.interfacePrefix,
  };
  if (like === undefined) {
    refuseFor(kind, options);
    refuseFanOut(spec, kind.datastore);
    for (const line of remarksOnSpec(written, kind)) io.stderr(`${line}\n`);
    io.stdout(manifestText(kind, manifest));
    return 0;
  }
  const earlier: EarlierManifest = {
    edited: await readManifest(context, like),
    pristine: options.pristine === undefined ? undefined : await readManifest(context, options.pristine),
  };
  const {
    kind: found,
    objects,
    kept,
    refused: left,
    release: was,
  } = reapplyEdits(earlier, { wanted, options: manifest });
  const { datastore, variant } = found;
  refuseFanOut(spec, datastore);
  for (const line of remarksOnSpec(written, found)) io.stderr(`${line}\n`);
  io.stderr(`${like}: ${variant}, ${datastore}, release ${was ?? 'unknown'}; comments are not kept\n`);
  for (const edit of kept) io.stderr(`kept: ${editLine(edit)}\n`);
  for (const { edit, reason } of left) io.stderr(`not kept: ${editLine(edit)}: ${reason}\n`);
  if (kept.length + left.length === 0) io.stderr('no edits\n');
  io.stdout(textOf(objects, headOf(found, manifest)));
  return left.length === 0 ? 0 : 1;
}

/** Reads the values of all documents of a manifest. @throws cli/usage, resource/invalid */
export async function readManifest(context: Context, file: string): Promise<readonly unknown[]> {
  const sources = await readInputs(context, { paths: [file], folders: 'flat' });
  return sources.flatMap((source) => {
    const { documents, problems } = readDocuments(source, 'resource/invalid');
    if (problems.length > 0) throw problemsError(`file "${file}"`, problems, 'resource/invalid');
    return documents.map((document) => document.value);
  });
}

/** Returns the pools as an Installation has them. @throws cli/usage */
export function readPoolFlags(cidrs: readonly string[]): readonly InstallationPool[] | undefined {
  if (cidrs.length === 0) return undefined;
  const pools = cidrs.map((cidr) => ({ cidr }));
  const metadata = { name: INSTALLATION_NAME };
  const spec = { calicoNetwork: { ipPools: pools } };
  const read = decodeResource({ apiVersion: API_VERSION, kind: 'Installation', metadata, spec });
  if ('problems' in read) {
    const problems = read.problems.map((problem) => ({
      ...problem,
      code: 'cli/usage' as const,
      path: problem.path.replace(/^spec\.calicoNetwork\.ipPools\[(\d+)\]\.cidr$/, '--pool $1'),
    }));
    throw problemsError('the pools', problems, 'cli/usage');
  }
  return pools;
}

function findKind(wanted: Partial<ManifestKind>, extent: 'with-defaults' | 'any'): ManifestKind {
  const { datastore, variant } = { ...(extent === 'any' ? {} : RELEASE_MANIFESTS[0]), ...wanted };
  const kind = RELEASE_MANIFESTS.find(
    (each) => (datastore ?? each.datastore) === each.datastore && (variant ?? each.variant) === each.variant,
  );
  if (kind !== undefined) return kind;
  throw refusedOption(
    `--variant ${variant ?? ''}`,
    `with datastore ${datastore ?? ''} there is no such manifest`,
    'Use --datastore orch, or one of the variants policy-and-networking, second-plugin',
  );
}

function refuseFor({ datastore, variant }: ManifestKind, { pool, kvEndpoints, interfacePrefix }: PrintOptions): void {
  if (interfacePrefix !== undefined && variant !== 'policy-only')
    throw refusedOption('--interface-prefix', 'netplug makes the interfaces itself', 'Add --variant policy-only');
  if (kvEndpoints !== undefined && datastore !== 'kvv3') {
    throw refusedOption('--kv-endpoints', 'the datastore is orch', 'Add --datastore kvv3');
  }
  if (pool.length === 0 || (datastore === 'orch' && variant !== 'policy-only')) return;
  if (variant === 'policy-only')
    throw refusedOption('--pool', 'another plugin assigns addresses in this variant', 'Leave it out');
  if (variant === 'policy-and-networking') {
    throw refusedOption(
      '--pool',
      'pools are records in etcd, not objects',
      'Create them with "netplugctl apply" once etcd runs',
    );
  }
}

/** Returns what the manifest does not have of the Installation in the file. */
function remarksOnSpec(spec: InstallationSpec, { datastore, variant }: ManifestKind): readonly string[] {
  const idle = idleFields(spec, { method: 'manifest', variant });
  const listed = spec.calicoNetwork?.ipPools ?? [];
  const isInEtcd = datastore === 'kvv3' && variant === 'policy-and-networking' && spec.cni?.ipam?.type !== 'HostLocal';
  const pools = isInEtcd ? listed.map(({ cidr }, index) => `${poolName(listed, index)} (${cidr})`) : [];
  return [
    ...idle.map(({ path, reason }) => `warning: ${path} has no effect with ${reason}`),
    ...(pools.length === 0
      ? []
      : [`pools are records in etcd, create them with "netplugctl apply" once etcd runs: ${pools.join(', ')}`]),
  ];
}

function refuseOptions(options: PrintOptions): void {
  const { what, datastore, variant, pool, spec, kvEndpoints, interfacePrefix, like, pristine } = options;
  const texts = {
    spec,
    datastore,
    variant,
    'kv-endpoints': kvEndpoints,
    'interface-prefix': interfacePrefix,
    like,
    pristine,
  };
  const given = Object.entries(texts)
    .filter(([, text]) => text !== undefined)
    .map(([name]) => name);
  const [first] = [...given, ...(pool.length > 0 ? ['pool'] : [])];
  if (first === undefined) return;
  const ofOperator = first === 'spec' ? 'Apply the Installation once the operator runs' : 'Set it in the Installation';
  const hint = what === 'operator' ? ofOperator : 'Leave it out';
  throw refusedOption(`--${first}`, `the manifest "${what}" does not depend on it`, hint);
}

function checkKvEndpoints(urls: string | undefined): void {
  const bad = urls?.split(',').find((url) => !isEndpointUrl(url));
  if (bad !== undefined)
    throw refusedOption(
      '--kv-endpoints',
      `found "${bad}", allowed is ${URL_RULE}`,
      'Separate several URLs with commas',
    );
}
