import { VERSION } from '../../../base/version.ts';
import { isNewerVersion } from '../../../base/compare-versions.ts';
import { yamlText } from '../../../base/yaml-text.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { NAMESPACES } from '../../../kube/paths.ts';
import { envoyFilter } from '../../../mesh/envoy-filter.ts';
import {
  injectionTemplate,
  readConfig,
  TEMPLATE_NAME,
  templateImage,
  withTemplate,
} from '../../../mesh/injection-template.ts';
import { isDeepStrictEqual } from 'node:util';
import { releaseIn } from '../../../upgrade/cluster/objects-in.ts';
import { readClusterConnection } from '../cluster/cluster-access.ts';
import type { Context, Status } from '../ports.ts';
import { type MeshPlace, readMeshControl, sidecarImage } from './read-mesh-state.ts';

const AMBIENT = 'istio.io/dataplane-mode';

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

/** Prints the ConfigMap of the mesh's injector with the template of the sidecar. */
export async function meshTemplate(context: Context, place: MeshPlace): Promise<Status> {
  return withApi(context, async (api) => {
    const { version, injector, config } = await readMeshControl(api, place, context.signal);
    const template = injectionTemplate({ mesh: version, ...(await sidecarImage(api, context.signal)) });
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

/** Prints the template as values of the mesh's own installation, which keeps them when it is upgraded. */
export async function meshValues(context: Context, place: MeshPlace): Promise<Status> {
  return withApi(context, async (api) => {
    const { version } = await readMeshControl(api, place, context.signal);
    const template = injectionTemplate({ mesh: version, ...(await sidecarImage(api, context.signal)) });
    context.io.stdout(yamlText({ sidecarInjectorWebhook: { templates: { [TEMPLATE_NAME]: template } } }));
    return 0;
  });
}

/** Says what is missing in the mesh, and what is of another release. Returns 1 when something is. */
export async function meshCheck(context: Context, place: MeshPlace): Promise<Status> {
  return withApi(context, async (api) => {
    const findings = await findMeshFaults(api, place, context.signal);
    for (const finding of findings) context.io.stdout(`${visibleText(finding)}\n`);
    if (findings.length === 0) context.io.stdout('template and filter are those of this release\n');
    return findings.length === 0 ? 0 : 1;
  });
}

/** Returns a sentence for each fault, with what mends it. @throws mesh/missing, store/* */
async function findMeshFaults(api: OrchApi, place: MeshPlace, signal: AbortSignal): Promise<readonly string[]> {
  const { version, config, injector } = await readMeshControl(api, place, signal);
  const found = readConfig(config)[TEMPLATE_NAME];
  const template = typeof found === 'string' ? found : undefined;
  const wanted = injectionTemplate({ mesh: version, ...(await sidecarImage(api, signal)) });
  const spec = (await findObject(api, referenceOf(envoyFilter(place.namespace)), signal))?.['spec'];
  const wantedFilter = JSON.parse(JSON.stringify(envoyFilter(place.namespace))) as { readonly spec: unknown };
  const namespaces = await api.list(NAMESPACES, { labelSelector: `${AMBIENT}=ambient` }, signal);
  return [
    ...templateFaults({ template, wanted, injector }),
    ...(spec === undefined
      ? ['mesh/filter-missing: no proxy asks its sidecar. Run "netplugctl mesh objects | kubectl apply -f -"']
      : []),
    ...(spec === undefined || isDeepStrictEqual(spec, wantedFilter.spec)
      ? []
      : [
          'mesh/filter-changed: the EnvoyFilter is not that of this release. Run "netplugctl mesh objects | kubectl apply -f -"',
        ]),
    ...namespaces.map(
      ({ metadata: { name } }) =>
        `mesh/ambient-namespace: pods of namespace ${name} have no proxy of their own, so rules with http open nothing there`,
    ),
  ];
}

function templateFaults({
  template,
  wanted,
  injector,
}: {
  readonly template: string | undefined;
  readonly wanted: string;
  readonly injector: string;
}): readonly string[] {
  const remedy = 'Give the mesh the output of "netplugctl mesh values", or apply that of "netplugctl mesh template"';
  if (template === undefined)
    return [`mesh/template-missing: ConfigMap ${injector} has no template "${TEMPLATE_NAME}". ${remedy}`];
  if (template.trimEnd() === wanted.trimEnd()) return [];
  const release = releaseIn(templateImage(template));
  return release !== undefined && isNewerVersion(VERSION, release)
    ? [`mesh/template-older: the template in ConfigMap ${injector} is of ${release}. ${remedy}`]
    : [`mesh/template-changed: the template in ConfigMap ${injector} is not that of this release. ${remedy}`];
}
