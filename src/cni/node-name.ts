import { NetplugError } from '../base/errors.ts';
import type { NodeName } from '../model/names.ts';

export interface NodeNameSources {
  /** The option `nodename`. */
  readonly configured: string | undefined;
  readonly hostname: string;
  /** The name that the agent registered, trimmed; undefined when no agent has registered the node. */
  readonly registered: string | undefined;
}

/**
 * Returns the name of this node: the option, else the host name (specification, netconf `nodename` and Errors 3).
 * @throws node/name-mismatch when the agent registered this machine under another name
 */
export function resolveNodeName({ configured, hostname, registered }: NodeNameSources): NodeName {
  const name = configured ?? hostname;
  if (registered === undefined || registered === name) return name as NodeName; // decoded here: option, host name or agent
  const source = configured === undefined ? `the host name is "${hostname}"` : `option nodename is "${configured}"`;
  throw new NetplugError(
    'node/name-mismatch',
    `Cannot determine the name of this node: ${source}, but the node agent registered it as "${registered}"`,
    {
      hint: `Set nodename to "${registered}" in the network configuration. If this machine was made from an image of "${registered}", start netplug-agent, which registers the right name, or remove "nodename" from its state folder`,
      facts: { configured, hostname, registered },
    },
  );
}

/** Returns every name under which this node may hold addresses. DEL and GC use all of them, so that no address leaks. */
export function possibleNodeNames({ configured, hostname, registered }: NodeNameSources): readonly NodeName[] {
  const names = [configured ?? hostname, registered].filter((name) => name !== undefined);
  return [...new Set(names)].map((name) => name as NodeName); // decoded here, as above
}
