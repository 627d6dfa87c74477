import { servesAdmissionPolicies } from '../../kube/admission-policies.ts';
import type { Manifest } from '../../model/manifest.ts';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import { AGENT_SET, imageNames, OPERATOR, registryIn } from '../../install/cluster/names.ts';
import type { ComponentOverride, InstallationSpec } from '../../model/installation.ts';
import { operatorObjects } from '../../install/cluster/operator-deployment.ts';
import {
  CRDS_FILE,
  OPERATOR_FILE,
  RELEASE_MANIFESTS,
  type ReleaseManifest,
} from '../../install/cluster/release-manifests.ts';
import type { FanOutMode } from '../../model/typha.ts';
import { settingsOf } from '../../install/cluster/settings-of.ts';
import { hasFanOut } from '../../install/cluster/settings.ts';
import { detectInstallation } from './detect-installation.ts';
import { isOnDelete } from './held-agents.ts';
import { installedSettings, overrideOf, pullSecretsIn } from './installed-spec.ts';
import { objectName } from '../../kube/objects/reference.ts';
import { releaseIn } from '../../model/image-release.ts';
import { findNamed, imageIn, metadataIn, recordIn } from './objects-in.ts';
import type { ClusterSnapshot } from './snapshot.ts';
import type { UpgradeTarget } from './target.ts';
import { usesFanOut } from './uses-fan-out.ts';

export interface TargetOptions {
  /** Example: `v3.27.0`. */
  readonly release: string;
  /** In place of the one that the images of the cluster have. */
  readonly registry?: string | undefined;
  /** Objects of a manifest that the user has edited; they replace those of the same name. */
  readonly edited?: readonly Manifest[] | undefined;
  /** Where the files of the release are, for commands. */
  readonly source?: string | undefined;
  /** Versions of the mesh for which there are injector templates. */
  readonly injectors?: readonly string[] | undefined;
  /** Whether agents use netplug-typha; as installed, or as in what was edited, unless given. */
  readonly typha?: FanOutMode | undefined;
}

/** Returns what the upgrade of the cluster leads to: the release with the settings that the cluster has. Pure. @throws upgrade/not-installed */
export function upgradeTarget(snapshot: ClusterSnapshot, options: TargetOptions): UpgradeTarget {
  const { release, registry, edited = [], source = `netplug-${options.release}`, injectors = [] } = options;
  const { variant, datastore, method } = detectInstallation(snapshot);
  const { spec: installed, circumstances } = installedSettings(snapshot);
  const spec = withFanOut(installed, options.typha ?? fanOutOf(edited));
  const settings = settingsOf(registry === undefined ? spec : { ...spec, registry }, {
    ...circumstances,
    release,
    servesAdmission: servesAdmissionPolicies(snapshot.served),
  });
  const own = new Map(edited.map((object) => [objectName(object), object]));
  const stages = clusterObjects({ ...settings, isOperated: method !== 'manifest' }).map(({ stage, objects }) => ({
    stage,
    // Pools are the user's: an upgrade never writes them.
    objects: objects
      .filter(({ kind }) => kind !== 'IPPool')
      .map((object) => rollingLike(object, own.get(objectName(object)) ?? object)),
  }));
  const operator = findNamed(snapshot.objects, 'Deployment', OPERATOR);
  const typha = hasFanOut(settings) ? 'Enabled' : undefined;
  const kinds: readonly ReleaseManifest[] = RELEASE_MANIFESTS.filter(
    (each) => each.datastore === datastore && each.variant === variant,
  );
  const file = (kinds.find((each) => each.typha === typha) ?? kinds[0])?.file ?? '';
  return {
    release,
    stages,
    operator: operator === undefined ? [] : operatorOf(operator, release, registry),
    source,
    manifest: method === 'manifest' ? file : OPERATOR_FILE,
    definitions: CRDS_FILE,
    chart: 'netplug',
    injectors,
  };
}

/** A manifest with the fan-out, or without it, leads there from the other. */
function fanOutOf(edited: readonly Manifest[]): TargetOptions['typha'] {
  if (findNamed(edited, 'DaemonSet', AGENT_SET) === undefined) return undefined;
  return usesFanOut(edited) ? 'Enabled' : 'Disabled';
}

function withFanOut(installed: InstallationSpec, mode: TargetOptions['typha']): InstallationSpec {
  if (mode === undefined) return installed;
  return { ...installed, typha: mode === 'Enabled' ? { ...installed.typha, mode } : { mode } };
}

/** An agent that is replaced only when its pod is deleted would never follow: the edit has its effect until the upgrade. */
function rollingLike(rendered: Manifest, edited: Manifest): Manifest {
  if (metadataIn(edited).name !== AGENT_SET || !isOnDelete(edited)) return edited;
  return {
    ...edited,
    spec: { ...recordIn(edited, 'spec'), updateStrategy: recordIn(rendered, 'spec')['updateStrategy'] },
  };
}

/** The operator of the release with the pull secrets, resources and the like of the one that runs. */
function operatorOf(live: Manifest, release: string, registry: string | undefined): readonly Manifest[] {
  const image = imageIn(live);
  const { namespace } = metadataIn(live);
  const render = (of: string, override: ComponentOverride): readonly Manifest[] =>
    operatorObjects({
      release: of,
      images: { ...imageNames(of, registry ?? registryIn(image)), pullSecrets: pullSecretsIn(live) },
      replicas: recordIn(live, 'spec')['replicas'] === 2 ? 2 : 1,
      override,
      ...(namespace === undefined ? {} : { namespace }),
    });
  const plain = findNamed(render(releaseIn(image) ?? release, {}), 'Deployment', OPERATOR) ?? {};
  return render(release, overrideOf(live, plain) ?? {});
}
