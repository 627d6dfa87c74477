import { NetplugError } from '../base/errors.ts';
import { tokenHolder } from './jwt.ts';

/** Users whose writes the admission policies limit to the node of their token. */
export const LIMITED_USERS: readonly string[] = ['netplug-cni', 'netplug-agent'].map(
  (account) => `system:serviceaccount:netplug-system:${account}`,
);
export const BIND_TOKEN =
  'Request a token with "kubectl create token ACCOUNT --namespace=netplug-system --bound-object-kind=Node --bound-object-name=NODE", or let the agent run in a pod';

/** Reports whether the admission policies refuse every write with the token, since it is bound to no node. */
export function isUnboundToken(token: string): boolean {
  const holder = tokenHolder(token);
  return holder !== undefined && LIMITED_USERS.includes(holder.user) && holder.node === undefined;
}

/** Returns why the admission policies refuse what the node writes with the token; undefined for one that is bound to the node. */
export function unboundToken(token: string, node: string): NetplugError | undefined {
  const holder = tokenHolder(token);
  if (holder === undefined || !LIMITED_USERS.includes(holder.user) || holder.node === node) return undefined;
  const bound = holder.node === undefined ? 'to no node' : `to node "${holder.node}", and this node is "${node}"`;
  return new NetplugError(
    'store/unbound-token',
    `the token of "${holder.user}" is bound ${bound}: the admission policies of netplug refuse what it writes`,
    { hint: BIND_TOKEN },
  );
}
