import { never, NetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { readDocuments, refuseProblems, type DocumentSource } from '../documents.ts';
import { readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { changeChosen } from './choice.ts';
import { schemaOf } from './merge-resource.ts';
import { applyJsonPatch } from './patch/json-patch.ts';
import { applyMergePatch } from './patch/merge-patch.ts';
import { applyStrategicPatch } from './patch/strategic-patch.ts';
import type { Wanted } from './target.ts';

export const PATCH_TYPES = ['strategic', 'merge', 'json'] as const;
export type PatchType = (typeof PATCH_TYPES)[number];

export interface PatchOptions {
  readonly wanted: readonly Wanted[];
  readonly namespace: string | undefined;
  /** The patch itself, or where it stands. */
  readonly patch: string | undefined;
  readonly patchFile: string | undefined;
  readonly type: PatchType;
  readonly mode: Mode;
}

/** Changes a part of resources that are there. */
export async function patch(context: Context, options: PatchOptions): Promise<Status> {
  const change = await readPatch(context, options);
  return changeChosen(
    context,
    { ...options, selector: undefined, reach: 'named' },
    {
      done: 'patched',
      change: (stored) => patched(stored, change, options.type),
      resourceVersion: versionIn(change),
    },
  );
}

function patched(stored: AnyResource, change: unknown, type: PatchType): unknown {
  // As the datastore keeps it: what is undefined there is not there.
  const document: unknown = JSON.parse(JSON.stringify(stored));
  switch (type) {
    case 'strategic':
      return applyStrategicPatch(document, change, schemaOf(stored.kind));
    case 'merge':
      return applyMergePatch(document, change);
    case 'json':
      return applyJsonPatch(document, change);
    default:
      return never(type);
  }
}

/** The version that a patch insists on. */
function versionIn(change: unknown): string | undefined {
  const metadata = isRecord(change) ? change['metadata'] : undefined;
  const version = isRecord(metadata) ? metadata['resourceVersion'] : undefined;
  return typeof version === 'string' ? version : undefined;
}

async function readPatch(context: Context, { patch: text, patchFile }: PatchOptions): Promise<unknown> {
  if ((text === undefined) === (patchFile === undefined)) {
    throw usage(
      `Cannot read the patch: ${text === undefined ? 'neither --patch nor --patch-file is' : 'both --patch and --patch-file are'} given`,
    );
  }
  const sources: readonly DocumentSource[] =
    patchFile === undefined
      ? [{ name: '--patch', text: text ?? '' }]
      : await readInputs(context, { paths: [patchFile], folders: 'flat' });
  const read = sources.map((source) => readDocuments(source, 'resource/invalid'));
  const problems = read.flatMap((each) => each.problems);
  refuseProblems(problems, 'the patch');
  const [document, ...more] = read.flatMap(({ documents }) => documents);
  if (document !== undefined && more.length === 0) return document.value;
  throw usage(`Cannot read the patch: there ${document === undefined ? 'is no document' : 'are several documents'}`);
}

function usage(message: string): NetplugError {
  return new NetplugError('cli/usage', message, { hint: `Give one, such as --patch '{"spec":{"disabled":true}}'` });
}
