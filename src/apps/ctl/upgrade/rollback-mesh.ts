import { isNewerVersion } from '../../../base/compare-versions.ts';
import type { ObjectReference } from '../../../kube/objects/reference.ts';
import { templateImage } from '../../../mesh/injection-template.ts';
import { releaseIn } from '../../../model/image-release.ts';
import { hasNewerSidecar, kubectlTarget, RESTARTABLE } from '../../../upgrade/cluster/sidecars.ts';
import type { SidecarWorkload } from '../../../upgrade/cluster/snapshot.ts';
import { meshNotes, type MeshRemains } from '../mesh/find-mesh-remains.ts';
import type { MeshTemplate } from '../mesh/read-mesh-templates.ts';
import type { Backup } from './backup.ts';

/** Agents of earlier releases serve no sidecar. */
const SIDECARS_FROM = 'v3.27.0';

/** What of a service mesh a rollback concerns. */
export interface RollbackMesh extends MeshRemains {
  readonly templates: readonly MeshTemplate[];
  readonly sidecars: readonly SidecarWorkload[];
}

/** Returns the filters to take away once agents have come that answer none of their questions. */
export function doomedFilters({ header: { from } }: Backup, { filters }: RollbackMesh): readonly ObjectReference[] {
  return servesSidecars(from) ? [] : filters;
}

/** Returns a sentence for each thing of the mesh that a rollback leaves, with what to do about it. `folder` has the backup. */
export function rollbackMeshNotes(backup: Backup, mesh: RollbackMesh, folder: string): readonly string[] {
  const { from } = backup.header;
  if (servesSidecars(from)) {
    return [
      ...mesh.filters.map(({ namespace, name }) => `kept: EnvoyFilter ${namespace}/${name}: proxies go on asking`),
      ...mesh.templates.flatMap((template) => templateNotes(template, backup, folder)),
      ...mesh.sidecars
        .filter((each) => hasNewerSidecar(each, from))
        .map(
          (each) =>
            `hazard: ${shown(each)} is newer than agents of ${from}, with which it was not tried, so that rules with http may allow nothing: ${restart(each)}`,
        ),
    ];
  }
  return [
    ...meshNotes(mesh),
    ...mesh.sidecars.map(
      (each) =>
        `hazard: ${shown(each)}, which agents of ${from} do not serve: ${RESTARTABLE.includes(each.kind) ? `"kubectl edit ${kubectlTarget(each).join(' ')}" takes it out` : 'take it out of what makes its pods'}`,
    ),
    ...mesh.templates.map(
      ({ namespace, name }) =>
        `left: template "netplug" of ConfigMap ${namespace}/${name}: "kubectl edit configmap ${name} -n ${namespace}" removes it, when no workload asks for it`,
    ),
  ];
}

function templateNotes(
  { namespace, name, text }: MeshTemplate,
  { header: { from, templates } }: Backup,
  folder: string,
): readonly string[] {
  const release = releaseIn(templateImage(text));
  const before = templates?.find((each) => each.namespace === namespace && each.name === name);
  // The text differs between releases also where the image is the same, as for another version of the mesh.
  if (release === undefined ? before?.text === text : !isNewerVersion(release, from)) return [];
  const [, revision] = /^istio-sidecar-injector-(.+)$/.exec(name) ?? [];
  const place = `--mesh-namespace ${namespace}${revision === undefined ? '' : ` --revision ${revision}`}`;
  const left = `left: template "netplug" of ConfigMap ${namespace}/${name}, by which new pods get ${release === undefined ? 'a sidecar of unknown release' : `sidecar ${release}`}`;
  const elsewhere = 'see "netplugctl mesh template" of that release';
  if (templates === undefined) return [`${left}; whether the backup has one is not known: ${elsewhere}`];
  if (before === undefined) return [`${left}; the backup has none: ${elsewhere}`];
  if (before.text === text) return [`${left}; that of the backup is the same: ${elsewhere}`];
  return [
    `${left}: "netplugctl mesh template ${place} --backup ${folder} | kubectl apply -f -" puts that of the backup back`,
  ];
}

function shown({ kind, namespace, name, newest = 'of unknown release' }: SidecarWorkload): string {
  return `netplug-sidecar ${newest} of ${kind} ${namespace}/${name}`;
}

function restart(workload: SidecarWorkload): string {
  const command = RESTARTABLE.includes(workload.kind)
    ? `"kubectl rollout restart ${kubectlTarget(workload).join(' ')}"`
    : 'make its pods anew';
  return `when the template is that of the backup, ${command}`;
}

/** A release that is not known may serve them. */
function servesSidecars(release: string): boolean {
  return !isNewerVersion(SIDECARS_FROM, release);
}
