import { choice, type Command, command, flagOption, mandatory, type OptionValues, some, value } from '../command.ts';
import { fileChoice, FILES } from '../common-options.ts';
import { write, type WriteOptions } from './change-resources.ts';
import { deleteResources } from './delete-resources.ts';
import { diff } from './diff-resources.ts';
import { label, type LABELLED } from './label-resources.ts';
import { patch, PATCH_TYPES } from './patch-resources.ts';
import { DRY_RUN, KIND, MAYBE_KIND, modeOption, NAMES, NAMESPACE, SELECTOR } from './resource-options.ts';
import { SHOW_COMMANDS } from './show-commands.ts';
import { targetOf, wantedByName } from './target.ts';

const WRITING = { ...FILES, filename: mandatory(FILES.filename), ...NAMESPACE, ...DRY_RUN };
const HOW_FILES_ARE_READ = `
Files hold YAML (one or more documents) or JSON. All of them are validated before the first write: an
invalid document changes nothing.`;

const OWNING = {
  fieldManager: value('name', 'manager that owns the fields of the files (default: netplugctl)'),
  forceConflicts: flagOption('take over fields of other managers'),
};

export const RESOURCE_COMMANDS: readonly Command[] = [
  command({
    path: ['apply'],
    summary: 'Creates resources, or changes them to what the files say.',
    options: {
      ...WRITING,
      ...OWNING,
    },
    details: `${HOW_FILES_ARE_READ}

With datastore_type orch, apply is a server-side apply: it keeps fields of other managers, refuses to
change them and names their manager, and removes fields that it applied before and the file omits.`,
    run: async (context, { options: { fieldManager, forceConflicts, ...options } }) =>
      write(context, { ...writing(options), verb: 'apply', manager: fieldManager, force: forceConflicts }),
  }),
  command({
    path: ['create'],
    summary: 'Creates resources that must not exist yet.',
    options: { ...WRITING, skipExists: flagOption('keep resources that exist already') },
    details: HOW_FILES_ARE_READ,
    run: async (context, { options: { skipExists, ...options } }) =>
      write(context, { ...writing(options), verb: 'create', ifThere: skipExists ? 'skip' : 'fail' }),
  }),
  command({
    path: ['replace'],
    summary: 'Changes resources that must exist to exactly what the files say.',
    options: WRITING,
    details: HOW_FILES_ARE_READ,
    run: async (context, { options }) => write(context, { ...writing(options), verb: 'replace' }),
  }),
  command({
    path: ['patch'],
    summary: 'Changes a part of resources.',
    arguments: [KIND, NAMES],
    options: {
      patch: value('patch', 'the patch itself, as YAML or JSON', { short: 'p', excludes: ['patchFile'] }),
      patchFile: value('file', 'file with the patch; "-" for standard input', { completes: 'file' }),
      type: choice('type', 'type of the patch', { choices: PATCH_TYPES }),
      ...NAMESPACE,
      ...DRY_RUN,
    },
    details: `
A strategic patch is merged, and the items of lists such as the communities of a BGPConfiguration are
matched by their key; "$patch: delete" removes an object or item, "$patch: replace" puts another in its
place. A merge patch (RFC 7386) replaces lists as a whole. A JSON patch (RFC 6902) is an array of
operations. What comes out is checked like a resource in a file.`,
    examples: [
      `netplugctl patch ippool blue -p '{"spec":{"disabled":true}}'`,
      `netplugctl patch ippool blue --type json -p '[{"op":"replace","path":"/spec/natOutgoing","value":true}]'`,
    ],
    run: async (context, { args: [kind, names], options }) =>
      patch(context, { ...options, wanted: wantedByName(kind, names), mode: modeOption(options) }),
  }),
  labelling('labels', {
    path: ['label'],
    summary: 'Sets and removes labels of resources.',
    examples: ['netplugctl label node n1 rack=r1 old-', 'netplugctl label ippools --all tier=gold --overwrite'],
  }),
  labelling('annotations', {
    path: ['annotate'],
    summary: 'Sets and removes annotations of resources.',
    examples: ['netplugctl annotate ippool blue example.org/owner=shop'],
  }),
  command({
    path: ['delete'],
    summary: 'Deletes resources.',
    arguments: [MAYBE_KIND, NAMES],
    options: {
      ...FILES,
      ...NAMESPACE,
      ...SELECTOR,
      all: flagOption('all resources of the kind'),
      ignoreNotFound: flagOption('treat missing resources as deleted'),
      ...DRY_RUN,
    },
    details: `
Deleting a Node keeps its blocks and addresses, because its agent may return. Use "netplugctl node
remove NAME" for a node that does not return.`,
    run: async (context, { args: [kind, names], options: { all, ignoreNotFound, ...options } }) =>
      deleteResources(context, {
        ...options,
        target: targetOf({ kind, names, ...options }),
        reach: all ? 'all' : 'named',
        ifMissing: ignoreNotFound ? 'ignore' : 'fail',
        mode: modeOption(options),
      }),
  }),
  ...SHOW_COMMANDS,
  command({
    path: ['diff'],
    summary: 'Shows what apply would change.',
    options: { ...FILES, filename: mandatory(FILES.filename), ...NAMESPACE, ...OWNING },
    details: `
Exits with 0 when nothing differs and with 1 otherwise. Compares the resources as YAML with sorted keys
and all defaults, without the metadata that the datastore adds. With datastore_type orch, the API server
computes the result of apply; this needs the rights to apply.`,
    examples: ['netplugctl diff -f pools.yaml'],
    run: async (context, { options: { namespace, fieldManager, forceConflicts, ...files } }) =>
      diff(context, { files: fileChoice(files), namespace, manager: fieldManager, force: forceConflicts }),
  }),
];

/** Only `apply` owns fields, and only `create` minds resources that are there already. */
function writing(options: OptionValues<typeof WRITING>): Omit<WriteOptions, 'verb'> {
  return {
    files: fileChoice(options),
    namespace: options.namespace,
    ifThere: 'fail',
    mode: modeOption(options),
    manager: undefined,
    force: false,
  };
}

function labelling(
  part: keyof typeof LABELLED,
  about: { readonly path: readonly [string]; readonly summary: string; readonly examples: readonly string[] },
): Command {
  return command({
    ...about,
    arguments: [KIND, some('word', 'names of resources, KEY=VALUE to set, KEY- to remove', { completes: 'name' })],
    options: {
      overwrite: flagOption('replace existing values'),
      all: flagOption('all resources of the kind'),
      ...SELECTOR,
      ...NAMESPACE,
      ...DRY_RUN,
    },
    run: async (context, { args: [kind, words], options: { overwrite, all, ...options } }) =>
      label(context, {
        ...options,
        part,
        kind,
        words,
        reach: all ? 'all' : 'named',
        ifThere: overwrite ? 'overwrite' : 'fail',
        mode: modeOption(options),
      }),
  });
}
