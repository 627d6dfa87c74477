import { workloadState } from '../../../kube/status/workload-state.ts';
import { isOnDelete } from '../held-agents.ts';
import { isNewerVersion } from '../../../base/compare-versions.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { type Check, faultOf } from '../../../checks/check.ts';
import { objectName } from '../../../kube/objects/reference.ts';
import { releaseIn } from '../../../model/image-release.ts';
import {
  containersIn,
  findNamed,
  imageIn,
  listIn,
  metadataIn,
  podSpecIn,
  recordIn,
  textIn,
  workloadRelease,
} from '../objects-in.ts';
import type { HazardFacts } from './hazard-facts.ts';
import type { ClusterSnapshot } from '../snapshot.ts';
import { AGENT_SET, CONFIG_MAP, TYPHA_TOKEN } from '../../../install/cluster/names.ts';
import { usesFanOut } from '../uses-fan-out.ts';
import { conflistPlugins } from '../conflist-plugins.ts';
import { mtuChange, mtuChangeText } from '../mtu-change.ts';
import { objectsOf } from '../target.ts';
import { isDeepStrictEqual } from 'node:util';

const OLDEST_SOURCE = 'v3.0.0';
const PORTMAP_NODES = 100;
const PORTMAP_SERVICES = 4000;
const GITOPS = /^(argocd\.argoproj\.io|kustomize\.toolkit\.fluxcd\.io|helm\.toolkit\.fluxcd\.io)\//;

/** Parts that an agent has with the fan-out, and loses when it is switched off. */
const OF_FAN_OUT = [`volume ${TYPHA_TOKEN.volume}`, 'variable NETPLUG_TYPHA'];

/** Checks of what is installed, against what the target installs. */
export const COMPONENT_CHECKS: readonly Check<HazardFacts>[] = [
  {
    id: 'release/unknown',
    severity: 'error',
    expected: 'images whose tags name their release',
    remedy: 'Set that label of the DaemonSet to the release that runs, such as v3.26.4, or the tag of its image',
    judge: ({ installed, snapshot }) =>
      faultOf(
        installed.from === undefined
          ? workloadsIn(snapshot.objects).map((object) => `${objectName(object)} (${imageIn(object)})`)
          : [],
        'no image and no label app.kubernetes.io/version tells the installed release',
      ),
  },
  {
    id: 'release/too-old',
    severity: 'error',
    expected: `${OLDEST_SOURCE} or later`,
    judge: ({ snapshot, installed: { from } }) =>
      faultOf(
        releasesIn(snapshot)
          .filter(({ release }) => isNewerVersion(OLDEST_SOURCE, release))
          .map(({ name, release }) => `${name} (${release})`),
        `release ${from ?? ''} runs, from which there is no upgrade`,
        `Upgrade to ${OLDEST_SOURCE} first`,
      ),
  },
  {
    id: 'release/newer',
    severity: 'error',
    expected: 'a target that is not older than what runs',
    remedy: 'Use the tool of the newer release, or "netplugctl upgrade rollback" to go back to a backup',
    judge: ({ snapshot, installed: { from }, target }) => {
      const newer = releasesIn(snapshot).filter(({ release }) => isNewerVersion(release, target.release));
      return faultOf(
        newer.map(({ name, release }) => `${name} (${release})`),
        `the target ${target.release} is older than what runs${from === undefined ? '' : `, ${from}`}`,
      );
    },
  },
  {
    id: 'pods/mtu-changed',
    severity: 'warning',
    expected:
      'the MTU of pods as before, because running pods keep theirs and full-size packets between both kinds may be lost',
    remedy: 'Leave "calicoNetwork.mtu" as it is until the upgrade is over, or replace the pods of all nodes after it',
    judge: ({ snapshot, target }) => {
      const change = mtuChange(snapshot, target);
      return faultOf(
        change === undefined ? [] : [`ConfigMap netplug-system/${CONFIG_MAP}`],
        change === undefined ? '' : mtuChangeText(change),
      );
    },
  },
  {
    id: 'objects/selector-changed',
    severity: 'error',
    expected: 'selectors of workloads as in the target, because Kubernetes refuses another selector',
    remedy: 'Delete the workload without its pods ("kubectl delete --cascade=orphan"); the upgrade makes it again',
    judge: (facts) => faultOf(otherSelectors(facts), 'workloads have a selector that the target cannot keep'),
  },
  {
    id: 'objects/refused',
    severity: 'error',
    expected: 'an API server that accepts every object of the target',
    remedy: 'Correct the object or the policy that refuses it, then run the preflight again',
    needs: ['dry run of the target'],
    judge: (facts) =>
      facts.snapshot.dryRuns
        // Those with another selector have a check of their own.
        .filter(({ outcome, object }) => outcome === 'refused' && !otherSelectors(facts).includes(object))
        .map(({ object, message }) => ({
          found: `the API server refuses ${object}: ${message}`,
          objects: [object],
        })),
  },
  {
    id: 'objects/fields-lost',
    severity: 'warning',
    expected: 'no fields that other managers own and the target sets',
    remedy: 'Write the values into the Installation or the manifest, so that the upgrade keeps them',
    needs: ['dry run of the target'],
    judge: ({ snapshot: { dryRuns } }) =>
      dryRuns
        .filter(({ lost }) => lost.length > 0)
        .map(({ object, lost }) => ({
          found: `${object} loses ${lost.map(({ field, manager }) => `${field} (of ${manager})`).join(', ')}`,
          objects: [object],
        })),
  },
  {
    id: 'objects/plugins-lost',
    severity: 'error',
    expected: 'a conflist whose plugins the target has too',
    remedy: 'Give the manifest in which you added them with --like',
    judge: ({ snapshot: { objects }, target }) => {
      const wanted = pluginsIn(objectsOf(target));
      const lost = pluginsIn(objects).filter((type) => !wanted.includes(type));
      return faultOf(
        lost.length === 0 ? [] : [`ConfigMap netplug-system/${CONFIG_MAP}`],
        `the conflist has plugins that new pods would do without: ${lost.join(', ')}`,
      );
    },
  },
  {
    id: 'objects/parts-lost',
    severity: 'warning',
    expected: 'workloads with no containers, volumes and variables but those of the target',
    remedy:
      'Give the manifest in which you added them with --like, unless they are of the older release; add those of the operator again afterwards',
    judge: ({ snapshot: { objects }, target, installed: { method } }) => {
      // The chart renders the operator itself.
      const operator = method === 'operator' ? target.operator : [];
      const isSwitchedOff = usesFanOut(objects) && !usesFanOut(objectsOf(target));
      const lost = workloadsIn([...objectsOf(target), ...operator]).flatMap((wanted) => {
        const found = objects.find((each) => objectName(each) === objectName(wanted));
        const kept = partsIn(wanted);
        return partsIn(found ?? {})
          .filter((part) => !kept.includes(part) && !(isSwitchedOff && OF_FAN_OUT.includes(part)))
          .map((part) => `${objectName(wanted)} (${part})`);
      });
      return faultOf(lost, 'the upgrade removes parts of workloads that are not in the target');
    },
  },
  {
    id: 'objects/gitops',
    severity: 'warning',
    expected: 'no GitOps tool that would undo the upgrade',
    remedy:
      'Change the release in the repository that the tool follows, or suspend the tool for the time of the upgrade',
    judge: ({ snapshot: { objects } }) =>
      faultOf(
        objects
          .filter((object) => {
            const { labels, annotations } = metadataIn(object);
            return [...Object.keys(labels), ...Object.keys(annotations)].some((key) => GITOPS.test(key));
          })
          .map(objectName),
        'Argo CD or Flux manages objects of netplug, and would put their old state back',
      ),
  },
  {
    id: 'objects/rolling',
    severity: 'error',
    expected: 'no roll-out in progress',
    remedy:
      'Wait for it with "kubectl rollout status" for these objects in namespace netplug-system; see their pods if it does not end',
    judge: ({ snapshot: { objects } }) =>
      faultOf(objects.filter(isRolling).map(objectName), 'a roll-out of netplug is in progress'),
  },
  {
    id: 'objects/on-delete',
    severity: 'warning',
    expected: 'a DaemonSet that replaces its pods by itself',
    remedy:
      'The upgrade ends this after its first node; to have it again, set OnDelete, or with an operator the annotation netplug.io/hold-agents of the Installation',
    judge: ({ snapshot: { objects } }) => {
      const agent = findNamed(objects, 'DaemonSet', AGENT_SET);
      return faultOf(
        agent !== undefined && isOnDelete(agent) ? [`DaemonSet netplug-system/${AGENT_SET}`] : [],
        'pods of the agent are replaced only when they are deleted: another upgrade was stopped, or a user wants it so',
      );
    },
  },
  {
    id: 'objects/images-by-other-registry',
    severity: 'note',
    expected: 'images from the registry of the target',
    remedy: 'Copy the images of the target there; with an installation by manifest, --registry names another one',
    judge: ({ snapshot: { objects }, target }) => {
      const wanted = registriesOf([...objectsOf(target), ...target.operator]);
      const others = workloadsIn(objects).filter((object) =>
        registriesOf([object]).some((each) => !wanted.includes(each)),
      );
      const present = registriesOf(others).filter((registry) => !wanted.includes(registry));
      return faultOf(
        others.map((object) => `${objectName(object)} (${registriesOf([object]).join(', ')})`),
        `images come from ${present.join(', ')} now, and from ${wanted.join(', ')} after the upgrade`,
      );
    },
  },
  {
    id: 'objects/portmap-scale',
    severity: 'warning',
    expected: `no portmap on a cluster of ${String(PORTMAP_NODES)} nodes and ${String(PORTMAP_SERVICES)} services`,
    remedy: 'Set calicoNetwork.hostPorts to Disabled if no pod uses host ports',
    needs: ['nodes', 'services'],
    judge: ({ snapshot: { objects, nodes, services } }) => {
      const isLarge = nodes.length >= PORTMAP_NODES && services >= PORTMAP_SERVICES;
      return faultOf(
        isLarge && pluginsIn(objects).includes('portmap') ? [`ConfigMap netplug-system/${CONFIG_MAP}`] : [],
        `portmap is chained on ${String(nodes.length)} nodes with ${String(services)} services: draining a node can take a long time`,
      );
    },
  },
  {
    id: 'chart/pending',
    severity: 'error',
    expected: 'a chart release whose last operation has ended well',
    remedy: 'Bring it to deployed with "helm rollback", or delete the record of the failed operation',
    needs: ['chart records'],
    judge: ({ installed: { chart } }) =>
      faultOf(
        chart === undefined || chart.status === 'deployed'
          ? []
          : [`${chart.namespace}/${chart.name} (${chart.status})`],
        'the chart release is not in status deployed, so that its tool refuses the next operation',
      ),
  },
  {
    id: 'chart/several',
    severity: 'error',
    expected: 'one release of the chart',
    remedy: 'Delete the records of those that are not in use; keep a copy of them',
    needs: ['chart records'],
    judge: ({ snapshot: { charts }, installed: { method } }) => {
      const names = new Set(charts.map(({ namespace, name }) => `${namespace}/${name}`));
      return faultOf(
        method === 'chart' && names.size > 1 ? [...names] : [],
        'several chart releases hold objects of netplug',
      );
    },
  },
  {
    id: 'chart/removed-kinds',
    severity: 'warning',
    expected: 'kinds that the API server still serves in the record of the chart',
    remedy:
      'The plan installs the chart anew instead of upgrading the record where ownership is passed on; otherwise edit the record with the chart tool first',
    needs: ['chart records'],
    judge: ({ snapshot: { served }, installed: { chart } }) =>
      faultOf(
        chart !== undefined &&
          (chart.kinds?.includes('PodSecurityPolicy') ?? isNewerVersion('v3.25.0', chart.version)) &&
          !served.includes('policy/podsecuritypolicies')
          ? [`Secret ${chart.namespace}/${chart.record}`]
          : [],
        'the record of the chart lists a PodSecurityPolicy, which the API server no longer serves: "helm upgrade" would fail',
      ),
  },
];

/** Returns the types of the plugins in the conflist of the installation. */
function pluginsIn(objects: readonly Manifest[]): readonly string[] {
  return conflistPlugins(objects).map((plugin) => textIn(plugin, 'type'));
}

/** Returns what the pods of a workload consist of, by name. */
function partsIn(workload: Manifest): readonly string[] {
  const spec = podSpecIn(workload);
  const named = (what: string, all: readonly Readonly<Record<string, unknown>>[]): readonly string[] =>
    all.map((each) => `${what} ${textIn(each, 'name')}`);
  return [
    ...named('container', [...listIn(spec, 'initContainers'), ...listIn(spec, 'containers')]),
    ...named('volume', listIn(spec, 'volumes')),
    ...listIn(spec, 'containers').flatMap((container) => named('variable', listIn(container, 'env'))),
  ];
}

function workloadsIn(objects: readonly Manifest[]): readonly Manifest[] {
  return objects.filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment');
}

/** Returns the release of each workload and pod that tells one. */
function releasesIn({
  objects,
  pods,
}: ClusterSnapshot): readonly { readonly name: string; readonly release: string }[] {
  const workloads = workloadsIn(objects).map((object) => ({
    name: objectName(object),
    release: workloadRelease(object),
  }));
  const running = pods.map(({ namespace, name, images: [image = ''] }) => ({
    name: `Pod ${namespace}/${name}`,
    release: releaseIn(image),
  }));
  return [...workloads, ...running].flatMap(({ name, release }) => (release === undefined ? [] : [{ name, release }]));
}

/** Returns the workloads whose selector differs from that of the target. */
function otherSelectors({ snapshot: { objects }, target }: HazardFacts): readonly string[] {
  const wanted = workloadsIn(objectsOf(target));
  const selectorOf = (object: Manifest): unknown => recordIn(recordIn(object, 'spec'), 'selector');
  return wanted.flatMap((object) => {
    const found = objects.find((each) => objectName(each) === objectName(object));
    return found === undefined || isDeepStrictEqual(selectorOf(object), selectorOf(found)) ? [] : [objectName(object)];
  });
}

/** A DaemonSet that waits for its pods to be deleted is at rest. */
function isRolling(object: Manifest): boolean {
  const isFollowing = ['DaemonSet', 'Deployment'].includes(String(object['kind'])) && !isOnDelete(object);
  const state = isFollowing ? workloadState(object, 'following') : undefined;
  return state !== undefined && (!state.isObserved || state.updated !== state.desired);
}

function registriesOf(objects: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  const images = objects.flatMap((object) => containersIn(object).map((container) => textIn(container, 'image')));
  return [...new Set(images.filter((image) => image !== '').map((image) => image.replace(/\/[^/]*$/, '')))];
}
