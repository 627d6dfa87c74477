import { agentSettings, endpointToHostAction } from '../../../config/agent-settings.ts';
import { serverPorts } from '../../../datastore/server-ports.ts';
import type { Store } from '../../../datastore/store.ts';
import { datastoreServers } from '../../../policy/api-servers.ts';
import { failsafePorts, type OpenPorts, withServers } from '../../../policy/open-ports.ts';
import type { IdentityMode } from '../../../policy/feed/messages.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';

/** Policy settings of each node by the AgentConfigurations, by its name. */
export interface NodePolicySettings {
  readonly endpointToHost: (node: string) => 'Accept' | 'Drop';
  /** Ports that no policy of a host endpoint closes. */
  readonly openPorts: (node: string) => OpenPorts;
  /** How the node tells who sent a request. */
  readonly identity: (node: string) => IdentityMode;
}

export async function readNodePolicySettings(
  store: Store,
  view: PolicyView,
  signal: AbortSignal,
): Promise<NodePolicySettings> {
  const { resources } = await store.listResources('AgentConfiguration', signal);
  const servers = datastoreServers(view, await serverPorts(await store.servers(signal)));
  const settingsOf = (node: string): ReturnType<typeof agentSettings>['settings'] =>
    agentSettings({}, node, resources).settings;
  return {
    endpointToHost: (node) => endpointToHostAction(settingsOf(node)),
    identity: (node) => settingsOf(node).applicationLayerIdentity,
    openPorts: (node) => withServers(failsafePorts(settingsOf(node)), servers),
  };
}
