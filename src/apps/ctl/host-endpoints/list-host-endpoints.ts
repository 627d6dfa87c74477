import { compareText } from '../../../datastore/order.ts';
import type { HostEndpoint } from '../../../model/host-endpoint.ts';
import type { Output } from '../common-options.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { renderTable } from '../table.ts';
import { isAutomatic } from '../../../model/automatic-host-endpoint.ts';
import { coversAllInterfaces } from '../../../upgrade/host-endpoints/all-interfaces.ts';

export interface ListHostEndpointsOptions {
  readonly which: 'all' | 'all-interfaces';
  readonly output: Output;
}

/** Shows host endpoints with the facts that the upgrade procedures depend on. */
export async function listHostEndpoints(
  context: Context,
  { which, output }: ListHostEndpointsOptions,
): Promise<Status> {
  const { io, signal } = context;
  return withStore(context, 'read', async (store) => {
    const { resources, problems } = await store.listResources('HostEndpoint', signal);
    for (const problem of problems) io.stderr(`warning: ${problem}\n`);
    const shown = resources.filter((endpoint) => which === 'all' || coversAllInterfaces(endpoint));
    const document = shown.map((endpoint) => ({ ...summary(endpoint), labels: endpoint.metadata.labels ?? {} }));
    const rows = shown.map((endpoint) => [...Object.values(summary(endpoint)), labelsText(endpoint)]);
    const titles = ['NODE', 'NAME', 'INTERFACE', 'MADE BY', 'LABELS'];
    io.stdout(renderDocument(document, output, () => renderTable(titles, rows)));
    return 0;
  });
}

function summary(endpoint: HostEndpoint): { node: string; name: string; interfaceName: string; madeBy: string } {
  const { metadata, spec } = endpoint;
  return {
    node: spec.node,
    name: metadata.name,
    interfaceName: spec.interfaceName ?? '',
    madeBy: isAutomatic(endpoint) ? 'controllers' : 'user',
  };
}

function labelsText({ metadata }: HostEndpoint): string {
  return Object.entries(metadata.labels ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .sort(compareText)
    .join(',');
}
