import type { Command } from '../command.ts';
import { choice, command, maybe, wordFrom, some, textLike, value, values } from '../command.ts';
import { ENDPOINTS_PLACEHOLDER } from '../../../install/cluster/release-manifests.ts';
import { VARIANTS } from '../../../install/cluster/settings.ts';
import { lintManifests } from './lint-manifest.ts';
import { MANIFEST_SUBJECTS, printManifest } from './print-manifest.ts';

export const REGISTRY_OPTION = value(
  'host',
  'registry of the images, with a path if it has one (default: netplug.io)',
  {
    read: textLike(
      /^[a-z0-9.-]+(:\d+)?(\/[a-z0-9._/-]+)?\/?$/,
      'Allowed is a host with optional port and path, such as registry.example:5000/netplug.',
    ),
  },
);

export const DATASTORE_TYPES = wordFrom(['orch', 'kvv3']);

export const PREFIX_OPTION = value(
  'prefix',
  'beginning of the names of interfaces that another plugin makes for pods, for the variant policy-only',
);

export const SPEC_OPTION = value('file', 'file with an Installation whose spec is used, or "-" for standard input', {
  completes: 'file',
});

export const MANIFEST_COMMANDS: readonly Command[] = [
  command({
    path: ['install', 'manifest'],
    summary: 'Prints the manifest of an installation in a cluster.',
    arguments: [
      maybe('what', `what to print: ${MANIFEST_SUBJECTS.join(', ')} (default: network)`, wordFrom(MANIFEST_SUBJECTS)),
    ],
    options: {
      datastore: value('type', 'datastore: orch (default), kvv3', DATASTORE_TYPES),
      variant: value('name', `what netplug does in the cluster: ${VARIANTS.join(', ')}`, wordFrom(VARIANTS)),
      registry: REGISTRY_OPTION,
      pool: values('cidr', 'range of pod addresses; may be repeated (default: 192.168.0.0/16)'),
      spec: SPEC_OPTION,
      kvEndpoints: value('urls', 'endpoints of etcd, separated by commas; http:// leaves certificates out'),
      interfacePrefix: PREFIX_OPTION,
      like: value('file', 'make the edits of this earlier manifest again', { completes: 'file' }),
      pristine: value('file', 'unedited manifest of the release of --like', { completes: 'file' }),
    },
    details: `
"network" is the network itself, without an operator; "operator" is the operator with the CRDs
that it needs; "crds" is the CRDs alone. The output depends only on the release and the options.

Manifests for etcd have the placeholder ${ENDPOINTS_PLACEHOLDER} in three places, and a Secret with placeholders for
certificates. That of the variant policy-only has a placeholder for --interface-prefix.
"netplugctl lint manifest" finds what is left of them.

--spec takes the settings from a file with an Installation. --pool and --registry set what the file leaves
open, and are refused when it has the same field.

--like compares the file with the manifest of its release, and makes the differences again. It lists each
edit on standard error. For a file of another release, give the unedited manifest of that release with
--pristine; without it, only edits are made that no release can have caused, and the others are listed.
The exit status is 1 if an edit is not made.`,
    examples: [
      'netplugctl install manifest --pool 10.244.0.0/16 > netplug.yaml',
      'netplugctl install manifest --datastore kvv3 --kv-endpoints https://10.0.0.1:2379 > netplug.yaml',
      'netplugctl install manifest --spec installation.yaml > netplug.yaml',
      'netplugctl install manifest --like netplug-v3.26.yaml --pristine netplug-v3.26.orig.yaml > netplug.yaml',
      'netplugctl install manifest operator | kubectl apply --server-side -f -',
    ],
    run: async (context, { args: [what = 'network'], options }) => printManifest(context, { what, ...options }),
  }),
  command({
    path: ['lint', 'manifest'],
    summary: 'Checks edited manifests of an installation.',
    arguments: [some('file', 'manifests, or "-" for standard input', { completes: 'file' })],
    options: { output: choice('format', 'output format', { short: 'o', choices: ['table', 'json', 'sarif'] }) },
    details: `
Finds placeholders, endpoints and certificates that cannot be used, pools that overlap, images of another
release, and what the manifest of this release has and the file lacks. The cluster is not asked;
"netplugctl install cluster --method manifest --dry-run" does that. The exit status is 1 if a file has an
error.`,
    examples: ['netplugctl lint manifest netplug.yaml'],
    run: async (context, { args: [files], options: { output } }) => lintManifests(context, { files, output }),
  }),
];
