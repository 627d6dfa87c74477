import { NetplugError } from '../../../base/errors.ts';
import { yamlText } from '../../../base/yaml-text.ts';
import { judgeAll } from '../../../checks/check.ts';
import { MESH_CHECKS } from '../../../checks/mesh-checks.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { envoyFilter } from '../../../mesh/envoy-filter.ts';
import { injectionTemplate, TEMPLATE_NAME, withTemplate } from '../../../mesh/injection-template.ts';
import { readClusterConnection } from '../cluster/cluster-access.ts';
import type { Context, Status } from '../ports.ts';
import { renderFindings } from '../render-findings.ts';
import { readBackup } from '../upgrade/backup.ts';
import { readMeshFactsOf } from './read-mesh-facts.ts';
import { type MeshPlace, readMeshControl, sidecarImage } from './read-mesh-state.ts';

async function withApi<T>(context: Context, use: (api: OrchApi) => Promise<T>): Promise<T> {
  const { api: access } = await readClusterConnection(context, undefined);
  await using api = context.ports.openApi(access);
  return await use(api);
}

/** Prints the object that has proxies of the mesh ask their sidecar. */
export function meshObjects({ io }: Context, { namespace }: MeshPlace): Status {
  io.stdout(yamlText(envoyFilter(namespace)));
  return 0;
}

/** Prints the ConfigMap of the mesh's injector with the template of the sidecar, of this release or of a backup. */
export async function meshTemplate(context: Context, place: MeshPlace, backup: string | undefined): Promise<Status> {
  return withApi(context, async (api) => {
    const { version, injector, config } = await readMeshControl(api, place, context.signal);
    const template =
      backup === undefined
        ? injectionTemplate({ mesh: version, ...(await sidecarImage(api, context.signal)) })
        : await backedUpTemplate(backup, { namespace: place.namespace, name: injector });
    const object = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: injector, namespace: place.namespace },
      data: { config: withTemplate(config, template) },
    };
    context.io.stdout(yamlText(object));
    return 0;
  });
}

async function backedUpTemplate(
  folder: string,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<string> {
  const { templates = [] } = (await readBackup(folder)).header;
  const found = templates.find((each) => each.namespace === namespace && each.name === name);
  if (found !== undefined) return found.text;
  const others = templates.map((each) => `${each.namespace}/${each.name}`).join(', ');
  throw new NetplugError(
    'upgrade/backup-unusable',
    `Cannot take the template from the backup "${folder}": it has none of ConfigMap ${namespace}/${name}${others === '' ? '' : ` (but of ${others})`}`,
    { hint: 'Name its control plane with --mesh-namespace and --revision, or run the tool of that release' },
  );
}

/** Prints the template as values of the mesh's own installation, which keeps them when it is upgraded. */
export async function meshValues(context: Context, place: MeshPlace): Promise<Status> {
  return withApi(context, async (api) => {
    const { version } = await readMeshControl(api, place, context.signal);
    const template = injectionTemplate({ mesh: version, ...(await sidecarImage(api, context.signal)) });
    context.io.stdout(yamlText({ sidecarInjectorWebhook: { templates: { [TEMPLATE_NAME]: template } } }));
    return 0;
  });
}

/** Prints what is missing in the mesh, and what is of another release. Returns 1 when something is. */
export async function meshCheck(context: Context, place: MeshPlace): Promise<Status> {
  return withApi(context, async (api) => {
    const meshState = await readMeshFactsOf(api, place, context.signal);
    const findings = judgeAll(MESH_CHECKS, { meshState });
    context.io.stdout(
      findings.length === 0
        ? 'template and filter are those of this release\n'
        : renderFindings(findings, context.io.screen),
    );
    return findings.length === 0 ? 0 : 1;
  });
}
