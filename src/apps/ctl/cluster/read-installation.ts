import { NetplugError } from '../../../base/errors.ts';
import { type Problem, showFound } from '../../../base/problem.ts';
import { invalidPools } from '../../../install/cluster/pool-of.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import type { InstallationPool, InstallationSpec } from '../../../model/installation.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { type DocumentSource, type ReadDocument, readDocuments, refuseProblems } from '../documents.ts';
import { refusedOption } from './install-options.ts';
import { readInputs, readSource } from '../inputs.ts';
import type { Context } from '../ports.ts';

/** Flags that set a field of the spec. */
export interface SpecFlags {
  readonly pools: readonly InstallationPool[] | undefined;
  readonly registry: string | undefined;
}

/**
 * Reads the Installation of a file, or of standard input for `-`, and checks it as the operator does. Returns its spec.
 * @throws cli/usage for a file that cannot be read, resource/invalid
 */
export async function readInstallation(context: Context, file: string): Promise<InstallationSpec> {
  const [source] = file === '-' ? await readInputs(context, { paths: [file], folders: 'flat' }) : [];
  return specIn(source ?? (await readSource(file)));
}

/** Returns the spec with what the flags set. @throws cli/usage when the spec has the same field */
export function withFlags(spec: InstallationSpec, { pools, registry }: SpecFlags): InstallationSpec {
  const { calicoNetwork } = spec;
  if (registry !== undefined && spec.registry !== undefined) throw givenTwice('--registry', 'spec.registry');
  if (pools !== undefined && calicoNetwork?.ipPools !== undefined)
    throw givenTwice('--pool', 'spec.calicoNetwork.ipPools');
  return {
    ...spec,
    ...(registry === undefined ? {} : { registry }),
    ...(pools === undefined ? {} : { calicoNetwork: { ...calicoNetwork, ipPools: pools } }),
  };
}

function specIn(source: DocumentSource): InstallationSpec {
  const what = `the Installation in "${source.name}"`;
  const { documents, problems } = readDocuments(source, 'resource/invalid');
  refuseProblems(problems, what);
  const [document] = documents;
  if (document === undefined || documents.length > 1) {
    const count = document === undefined ? 'no document' : `${String(documents.length)} documents`;
    throw new NetplugError('cli/usage', `Cannot use "${source.name}" as Installation: it has ${count}`, {
      hint: 'Give one document with apiVersion, kind, metadata and spec of an Installation',
    });
  }
  const read = decodeInstallation(document);
  if ('spec' in read) return read.spec;
  const placed = read.problems.map((problem) => ({ ...problem, place: document.placeOf(problem.path) }));
  refuseProblems(placed, what);
  return {};
}

function decodeInstallation({ value }: ReadDocument):
  | { readonly spec: InstallationSpec }
  | {
      readonly problems: readonly Problem[];
    } {
  const kind = isRecord(value) ? value['kind'] : undefined;
  if (isRecord(value) && kind !== 'Installation') {
    const found = kind === undefined ? 'missing; needed is' : `found ${showFound(kind)}, allowed is`;
    return { problems: [{ path: 'kind', message: `${found} "Installation"`, code: 'resource/invalid' }] };
  }
  const decoded = decodeResource(value);
  if ('problems' in decoded) return decoded;
  // The kind is that of an Installation.
  const spec = decoded.resource.spec as InstallationSpec;
  const problems = invalidPools(spec);
  return problems.length > 0 ? { problems } : { spec };
}

function givenTwice(flag: string, field: string): NetplugError {
  return refusedOption(flag, `the file of --spec has ${field}`, `Leave ${flag} out, or the field in the file`);
}
