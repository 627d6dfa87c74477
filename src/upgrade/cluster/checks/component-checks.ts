import { isNewerVersion } from '../../../base/compare-versions.ts';
import { hazardOf, type PreflightCheck } from './check.ts';
import { containersIn, findNamed, metadataIn, objectName, recordIn, textIn } from '../objects-in.ts';
import { AGENT_SET } from '../../../install/cluster/names.ts';
import { isDeepStrictEqual } from 'node:util';

const OLDEST_SOURCE = 'v3.0.0';
const PORTMAP_NODES = 100;
const PORTMAP_SERVICES = 4000;
const GITOPS = /^(argocd\.argoproj\.io|kustomize\.toolkit\.fluxcd\.io|helm\.toolkit\.fluxcd\.io)\//;
const GITOPS_LABELS = ['app.kubernetes.io/instance', 'argocd.argoproj.io/instance'];

/** Checks of what is installed, against what the target installs. */
export const COMPONENT_CHECKS: readonly PreflightCheck[] = [
  {
    id: 'release/unknown',
    severity: 'block',
    expected: 'images whose tags name their release',
    judge: ({ installed, snapshot }) =>
      hazardOf(
        installed.from === undefined ? snapshot.pods.flatMap(({ images }) => images) : [],
        'no image tells the installed release',
        'Set the tags of the release that runs, or name it with --from-release',
      ),
  },
  {
    id: 'release/too-old',
    severity: 'block',
    expected: `${OLDEST_SOURCE} or later`,
    judge: ({ installed: { from } }) =>
      hazardOf(
        from !== undefined && isNewerVersion(OLDEST_SOURCE, from) ? [from] : [],
        `release ${from ?? ''} runs, from which there is no upgrade`,
        `Upgrade to ${OLDEST_SOURCE} first`,
      ),
  },
  {
    id: 'release/newer',
    severity: 'block',
    expected: 'a target that is not older than what runs',
    judge: ({ installed: { from, releases }, target }) => {
      const newer = Object.entries(releases).filter(([, release]) => isNewerVersion(release, target.release));
      return hazardOf(
        newer.map(([name, release]) => `${name} (${release})`),
        `the target ${target.release} is older than what runs${from === undefined ? '' : `, ${from}`}`,
        'Use the tool of the newer release, or "netplugctl upgrade rollback" to go back to a backup',
      );
    },
  },
  {
    id: 'objects/selector-changed',
    severity: 'block',
    expected: 'selectors of workloads as in the target, because Kubernetes refuses another selector',
    judge: ({ snapshot: { objects }, target }) =>
      hazardOf(
        target.stages.flatMap(({ objects: wanted }) =>
          wanted.flatMap((object) => {
            const found = objects.find((each) => objectName(each) === objectName(object));
            const [ours, theirs] = [object, found ?? object].map((each) =>
              recordIn(recordIn(each, 'spec'), 'selector'),
            );
            const isWorkload = ['DaemonSet', 'Deployment'].includes(String(object['kind']));
            return isWorkload && !isDeepStrictEqual(ours, theirs) ? [objectName(object)] : [];
          }),
        ),
        'workloads have a selector that the target cannot keep',
        'Delete the workload without its pods ("kubectl delete --cascade=orphan"); the upgrade makes it again',
      ),
  },
  {
    id: 'objects/refused',
    severity: 'block',
    expected: 'an API server that accepts every object of the target',
    judge: ({ snapshot: { rehearsal } }) =>
      rehearsal
        .filter(({ outcome }) => outcome === 'refused')
        .map(({ object, message }) => ({
          found: `the API server refuses ${object}: ${message}`,
          evidence: [object],
          remedy: 'Correct the object or the policy that refuses it, then run the preflight again',
        })),
  },
  {
    id: 'objects/fields-lost',
    severity: 'warning',
    expected: 'no fields that other managers own and the target sets',
    judge: ({ snapshot: { rehearsal } }) =>
      rehearsal
        .filter(({ lost }) => lost.length > 0)
        .map(({ object, lost }) => ({
          found: `${object} loses ${lost.map(({ field, manager }) => `${field} (of ${manager})`).join(', ')}`,
          evidence: [object],
          remedy: 'Write the values into the Installation or the manifest, so that the upgrade keeps them',
        })),
  },
  {
    id: 'objects/gitops',
    severity: 'warning',
    expected: 'no GitOps tool that would undo the upgrade',
    judge: ({ snapshot: { objects } }) =>
      hazardOf(
        objects
          .filter((object) => {
            const { labels, annotations } = metadataIn(object);
            const keys = [...Object.keys(labels), ...Object.keys(annotations)];
            return (
              keys.some((key) => GITOPS.test(key)) ||
              GITOPS_LABELS.some((key) => key.startsWith('argocd') && labels[key] !== undefined)
            );
          })
          .map(objectName),
        'Argo CD or Flux manages objects of netplug, and would put their old state back',
        'Change the release in the repository that the tool follows, or suspend the tool for the time of the upgrade',
      ),
  },
  {
    id: 'objects/rolling',
    severity: 'block',
    expected: 'no roll-out in progress',
    judge: ({ snapshot: { objects } }) =>
      hazardOf(
        objects
          .filter((object) => {
            const [{ generation }, { observedGeneration }] = [recordIn(object, 'metadata'), recordIn(object, 'status')];
            const { desiredNumberScheduled, updatedNumberScheduled } = recordIn(object, 'status');
            return (
              (observedGeneration !== undefined && generation !== undefined && observedGeneration !== generation) ||
              (desiredNumberScheduled !== undefined && (updatedNumberScheduled ?? 0) !== desiredNumberScheduled)
            );
          })
          .map(objectName),
        'a roll-out of netplug is in progress',
        'Wait for it: "kubectl rollout status daemonset/netplug-node -n netplug-system"',
      ),
  },
  {
    id: 'objects/on-delete',
    severity: 'warning',
    expected: 'a DaemonSet that replaces its pods by itself',
    judge: ({ snapshot: { objects } }) => {
      const agent = findNamed(objects, 'DaemonSet', AGENT_SET);
      const strategy = recordIn(recordIn(agent ?? {}, 'spec'), 'updateStrategy');
      return hazardOf(
        textIn(strategy, 'type') === 'OnDelete' ? [`DaemonSet/${AGENT_SET}`] : [],
        'pods of the agent are replaced only when they are deleted: another upgrade was stopped, or a user wants it so',
        'The upgrade sets RollingUpdate after its canary; set it back afterwards if you need OnDelete',
      );
    },
  },
  {
    id: 'objects/images-by-other-registry',
    severity: 'note',
    expected: 'images from the registry of the target',
    judge: ({ snapshot: { objects }, target }) => {
      const wanted = registriesOf(target.stages.flatMap((stage) => stage.objects));
      const present = registriesOf(objects).filter((registry) => !wanted.includes(registry));
      return hazardOf(
        present,
        `images come from ${present.join(', ')} now, and from ${wanted.join(', ')} after the upgrade`,
        'Give --registry to keep yours, and copy the images of the target to it first',
      );
    },
  },
  {
    id: 'objects/portmap-scale',
    severity: 'warning',
    expected: `no portmap on a cluster of ${String(PORTMAP_NODES)} nodes and ${String(PORTMAP_SERVICES)} services [spec: Limits]`,
    judge: ({ snapshot: { objects, nodes, services } }) => {
      const config = recordIn(findNamed(objects, 'ConfigMap', 'netplug-config') ?? {}, 'data');
      const isLarge = nodes.length >= PORTMAP_NODES && services >= PORTMAP_SERVICES;
      return hazardOf(
        isLarge && textIn(config, 'conflist').includes('"portmap"') ? ['ConfigMap/netplug-system/netplug-config'] : [],
        `portmap is chained on ${String(nodes.length)} nodes with ${String(services)} services: draining a node can take a long time`,
        'Set calicoNetwork.hostPorts to Disabled if no pod uses host ports',
      );
    },
  },
  {
    id: 'chart/pending',
    severity: 'block',
    expected: 'a chart release whose last operation has ended well',
    judge: ({ installed: { chart } }) =>
      hazardOf(
        chart === undefined || chart.status === 'deployed'
          ? []
          : [`${chart.namespace}/${chart.name} (${chart.status})`],
        'the chart release is not in status deployed, so that its tool refuses the next operation',
        'Bring it to deployed with "helm rollback", or delete the record of the failed operation',
      ),
  },
  {
    id: 'chart/several',
    severity: 'block',
    expected: 'one release of the chart',
    judge: ({ snapshot: { charts }, installed: { method } }) => {
      const names = new Set(charts.map(({ namespace, name }) => `${namespace}/${name}`));
      return hazardOf(
        method === 'chart' && names.size > 1 ? [...names] : [],
        'several chart releases hold objects of netplug',
        'Delete the records of those that are not in use; keep a copy of them',
      );
    },
  },
  {
    id: 'chart/removed-kinds',
    severity: 'warning',
    expected: 'kinds that the API server still serves in the record of the chart',
    judge: ({ snapshot: { served }, installed: { chart } }) =>
      hazardOf(
        chart !== undefined &&
          isNewerVersion('v3.25.0', chart.version) &&
          !served.includes('policy/podsecuritypolicies')
          ? [`Secret/${chart.namespace}/${chart.record}`]
          : [],
        'the record of the chart lists a PodSecurityPolicy, which the API server no longer serves: "helm upgrade" would fail',
        'The plan installs the chart anew instead of upgrading the record where ownership is passed on; otherwise edit the record with the chart tool first',
      ),
  },
];

function registriesOf(objects: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  const images = objects.flatMap((object) => containersIn(object).map((container) => textIn(container, 'image')));
  return [...new Set(images.filter((image) => image !== '').map((image) => image.replace(/\/[^/]*$/, '')))];
}
