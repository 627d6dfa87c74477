import { NetplugError } from '../../../base/errors.ts';
import { agentSettings, type EffectiveSettings, endpointToHostAction } from '../../../config/agent-settings.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { failsafePorts } from '../../../policy/open-ports.ts';
import type { Context, Status } from '../ports.ts';
import { findEnd } from './connection-ends.ts';
import { type AskedProtocol, explainConnections } from './explain-connection.ts';
import { type PolicyOutput, renderDocument } from './policy-output.ts';
import { withPolicyState } from './read-policy-state.ts';
import { renderConnections } from './render-connections.ts';

export interface PolicyWhyOptions {
  readonly port: number | undefined;
  readonly protocol: AskedProtocol;
  readonly output: PolicyOutput;
}

/** Prints whether policies allow connections from one end to another. Returns status 1 when they deny. @throws cli/usage */
export async function policyWhy(
  context: Context,
  { from, to }: { readonly from: string; readonly to: string },
  { port, protocol, output }: PolicyWhyOptions,
): Promise<Status> {
  const { io, signal } = context;
  if (protocol === 'ICMP' && port !== undefined) {
    throw new NetplugError('cli/usage', 'Cannot use --port with ICMP: its packets have no ports', {
      hint: 'Leave --port out',
    });
  }
  return withPolicyState(context, async (view, store) => {
    const { resources: nodes } = await store.listResources('Node', signal);
    const [source, destination] = [findEnd({ view, nodes }, from), findEnd({ view, nodes }, to)];
    const settingsOf = await readSettings(store, signal);
    const explained = explainConnections(view, {
      from: source,
      to: destination,
      protocol,
      port,
      endpointToHost: (node) => endpointToHostAction(settingsOf(node)),
      openPorts: (node) => failsafePorts(settingsOf(node)),
    });
    if (explained.connections.length === 0) {
      throw new NetplugError('cli/usage', `Cannot connect ${from} to ${to}: they have no IP family in common`, {
        hint: 'Choose two ends with IPv4 addresses, or two with IPv6 addresses',
      });
    }
    io.stdout(renderDocument(explained, output, renderConnections));
    return explained.verdict === 'allow' ? 0 : 1;
  });
}

/** Returns the settings of the agent of each node, as the datastore has them. */
async function readSettings(store: ResourceStore, signal: AbortSignal): Promise<(node: string) => EffectiveSettings> {
  const { resources } = await store.listResources('AgentConfiguration', signal);
  return (node) => agentSettings({}, node, resources).settings;
}
