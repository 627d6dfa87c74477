import { NetplugError } from '../../base/errors.ts';
import { any, choice, type Command, command, flag, mandatory, maybe, value } from '../command.ts';
import { fileChoice, FILES } from '../common-options.ts';
import { remove, write } from './change-resources.ts';
import { get, GET_OUTPUTS } from './get.ts';
import { targetOf } from './target.ts';
import type { WriteVerb } from './write-resource.ts';

const KIND = maybe('kind', 'kind of resource, such as ippool', { completes: 'kind' });

export const RESOURCE_COMMANDS: readonly Command[] = [
  writing('apply', 'Creates resources, or changes them to what the files say.'),
  writing('create', 'Creates resources that must not exist yet.'),
  writing('replace', 'Changes resources that must exist to exactly what the files say.'),
  command({
    path: ['delete'],
    summary: 'Deletes resources.',
    arguments: [KIND, any('name', 'names of resources', { completes: 'name' })],
    options: { ...FILES, ignoreNotFound: flag('take what is not there for deleted') },
    details: `
Deleting a Node leaves its blocks and addresses as they are, because its agent may come back:
"netplugctl node remove NAME" gives them back for a node that is gone for good.`,
    run: async (context, { args: [kind, names], options: { ignoreNotFound, ...files } }) => {
      const target = targetOf({ kind, names, ...files });
      if (target.by === 'name' && target.names.length === 0) {
        throw new NetplugError('cli/usage', 'Cannot delete: no name is given', {
          hint: 'Name what to delete, or use -f',
        });
      }
      return remove(context, { target, ifMissing: ignoreNotFound ? 'ignore' : 'fail' });
    },
  }),
  command({
    path: ['get'],
    summary: 'Shows resources.',
    arguments: [KIND, any('name', 'names of resources; all of the kind unless given', { completes: 'name' })],
    options: {
      ...FILES,
      output: choice('format', 'form of the answer', { choices: GET_OUTPUTS, short: 'o' }),
      namespace: value('namespace', 'only endpoints of this namespace', { short: 'n' }),
    },
    examples: [
      'netplugctl get ippools',
      'netplugctl get pool blue -o yaml',
      'netplugctl get workloadendpoints -n shop -o wide',
    ],
    run: async (context, { args: [kind, names], options: { output, namespace, ...files } }) =>
      get(context, { target: targetOf({ kind, names, ...files }), output, namespace }),
  }),
];

function writing(verb: WriteVerb, summary: string): Command {
  return command({
    path: [verb],
    summary,
    options: { ...FILES, filename: mandatory(FILES.filename) },
    details: `
Files hold YAML (one or more documents) or JSON. All of them are read before the first resource is
written: one that is wrong changes nothing.`,
    run: async (context, { options }) => write(context, verb, fileChoice(options)),
  });
}
