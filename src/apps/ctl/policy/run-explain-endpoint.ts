import { NetplugError } from '../../../base/errors.ts';
import type { Context, Status } from '../ports.ts';
import { HOST, noEndpoint } from './connection-ends.ts';
import { explainEndpoints } from './explain-endpoint.ts';
import { explainHosts } from './explain-host.ts';
import type { DocumentOutput } from '../common-options.ts';
import { renderDocument } from '../render-document.ts';
import { readNodePolicySettings } from './read-node-settings.ts';
import { withPolicyState } from './read-policy-state.ts';
import { renderEndpoints } from './render-endpoints.ts';
import { renderHosts } from './render-hosts.ts';

/**
 * Prints what policies see of a pod, or of the host endpoints of `host/NODE`, and which of them apply. @throws resource/not-found
 */
export async function runExplainEndpoint(
  context: Context,
  end: string,
  { output }: { readonly output: DocumentOutput },
): Promise<Status> {
  const { io, signal } = context;
  return withPolicyState(context, async (view, store) => {
    if (!end.startsWith(HOST)) {
      const endpoints = explainEndpoints(view, end);
      if (endpoints.length === 0) throw noEndpoint(end);
      io.stdout(renderDocument({ endpoints }, output, renderEndpoints));
      return 0;
    }
    const node = end.slice(HOST.length);
    const { openPorts } = await readNodePolicySettings(store, view, signal);
    const hostEndpoints = explainHosts(view, node, openPorts(node));
    if (hostEndpoints.length === 0) throw noHostEndpoint(node);
    io.stdout(renderDocument({ hostEndpoints }, output, renderHosts));
    return 0;
  });
}

function noHostEndpoint(node: string): NetplugError {
  return new NetplugError(
    'resource/not-found',
    `Cannot find a host endpoint of node "${node}": its interfaces are open`,
    {
      hint: 'Run "netplugctl get hostendpoints"; for a pod of the namespace "host", "netplugctl policy why" explains its address',
    },
  );
}
