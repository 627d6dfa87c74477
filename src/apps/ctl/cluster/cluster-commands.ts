import { NetplugError } from '../../../base/errors.ts';
import { choice, type Command, command, flagOption, mandatory, wordFrom, unless, value, values } from '../command.ts';
import { INSTALL_METHODS } from '../../../install/cluster/checks/preflight-facts.ts';
import { VARIANTS } from '../../../install/cluster/settings.ts';
import { confirmMode } from './confirm.ts';
import { clusterStatus } from './cluster-status.ts';
import { installCluster } from './install-cluster.ts';
import {
  DATASTORE_TYPES,
  MANIFEST_COMMANDS,
  PREFIX_OPTION,
  REGISTRY_OPTION,
  SPEC_OPTION,
} from './manifest-commands.ts';
import { readPoolFlags } from './print-manifest.ts';
import { readInstallation } from './read-installation.ts';
import { uninstallCluster } from './uninstall-cluster.ts';

const INSTALL_SECONDS = 900;

export const CLUSTER_COMMANDS: readonly Command[] = [
  command({
    path: ['install', 'cluster'],
    summary: 'Installs netplug in a Kubernetes cluster, and proves that the network works.',
    options: {
      method: mandatory(value('method', `how to install it: ${INSTALL_METHODS.join(', ')}`, wordFrom(INSTALL_METHODS))),
      datastore: value('type', 'datastore: orch, kvv3 (default: that of the environment)', DATASTORE_TYPES),
      variant: choice('name', 'what netplug does in the cluster', { choices: VARIANTS }),
      registry: REGISTRY_OPTION,
      interfacePrefix: PREFIX_OPTION,
      pool: values('cidr', 'range of pod addresses; may be repeated (default: a common range that overlaps nothing)'),
      spec: SPEC_OPTION,
      proof: unless('do not start probe pods at the end'),
      yes: flagOption('do not ask for confirmation', { excludes: ['dryRun'] }),
      dryRun: flagOption('check the cluster, show the plan, and change nothing'),
    },
    details: `
The command checks the cluster first: rights of the user for every object, releases of Kubernetes and of
the CRDs, kernels, clocks and state of the nodes, other network plugins, ports, and ranges of pods
and services. Nothing is changed if a check fails. It then shows the plan, checks each node with a pod,
applies the objects on the server, waits, and has a pair of pods on each node reach the pods of every node
and a Service. Run it again after an interruption: the plan consists of what is left.

--spec takes every setting from a file with an Installation, for each method; of the file only the spec is
used. --pool and --registry set what the file leaves open, and are refused when it has the same field.
Repeated without --spec, the command keeps the settings of the installation that runs and changes only
what --pool and --registry set. What it would change of objects that exist is listed before the plan, also
an edit by hand that no Installation can express. Another variant or datastore is refused.

The kubeconfig decides the cluster. With KV_ENDPOINTS in the environment the datastore is etcd, which the
method "manifest" supports; its certificates are copied into a Secret. The method "chart" runs helm, which
is found by HELM or in PATH; the chart is part of this program.`,
    examples: [
      'netplugctl install cluster --method operator --yes',
      'netplugctl install cluster --method manifest --pool 10.244.0.0/16 --dry-run',
      'netplugctl install cluster --method operator --spec installation.yaml --yes',
      'netplugctl install cluster --method chart --registry registry.example:5000/netplug --yes',
    ],
    timeoutSeconds: INSTALL_SECONDS,
    run: async (context, { options: { method, pool, spec, proof, yes, dryRun, ...rest } }) => {
      const mode = confirmMode({ dryRun, yes });
      if (spec === '-' && mode === 'ask') throw noAnswer();
      return installCluster(context, {
        ...rest,
        method: method ?? 'operator',
        pools: readPoolFlags(pool),
        spec: spec === undefined ? undefined : await readInstallation(context, spec),
        proof: proof ? 'run' : 'skip',
        mode,
      });
    },
  }),
  command({
    path: ['install', 'status'],
    summary: 'Shows the state of the installation in the cluster.',
    options: { wait: flagOption('wait until all of it is ready') },
    details: `
The exit status is 1 if a part of the installation is not ready.`,
    examples: ['netplugctl install status --wait --timeout 300'],
    timeoutSeconds: INSTALL_SECONDS,
    run: async (context, { options: { wait } }) => clusterStatus(context, { waits: wait }),
  }),
  ...MANIFEST_COMMANDS,
  command({
    path: ['uninstall', 'cluster'],
    summary: 'Removes netplug from a Kubernetes cluster.',
    options: {
      purge: flagOption('also remove everything on the nodes, all resources, the CRDs and the namespace'),
      registry: REGISTRY_OPTION,
      cluster: value('name', 'name of the context or id of the cluster that is meant; --purge --yes asks without it'),
      yes: flagOption('do not ask for confirmation', { excludes: ['dryRun'] }),
      dryRun: flagOption('show the plan, and change nothing'),
    },
    details: `
The command finds out which method installed netplug. Running pods keep their network: plugin,
configuration and interfaces stay on the nodes, and the credentials of the plugin in the cluster, so that
the runtime can still remove pods. New pods on a node get no route to other nodes.

--purge cuts running pods off, which the plan counts and begins to name, with their host ports and limits of
bandwidth. It returns when no object, file, interface, route, rule, namespace or definition of netplug is
left in the cluster and on its nodes. It runs "netplugctl node uninstall --purge --force" in a pod on each
node. Records in etcd stay. With --yes it wants --cluster: another cluster than
the one that is named is refused, and without the option it asks.

Plan and question name the cluster by context, server, id (the uid of the namespace kube-system) and number
of nodes.`,
    examples: [
      'netplugctl uninstall cluster --dry-run',
      'netplugctl uninstall cluster --purge --yes --cluster prod-eu',
    ],
    timeoutSeconds: INSTALL_SECONDS,
    run: async (context, { options: { purge, yes, dryRun, ...rest } }) =>
      uninstallCluster(context, {
        ...rest,
        extent: purge ? 'everything' : 'programs',
        mode: confirmMode({ dryRun, yes }),
      }),
  }),
];

function noAnswer(): NetplugError {
  return new NetplugError('cli/usage', 'Cannot ask for confirmation: standard input is the Installation', {
    hint: 'Add --yes, or see the plan with --dry-run',
  });
}
