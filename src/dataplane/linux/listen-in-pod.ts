import { createServer, type Socket } from 'node:net';
import { NetplugError } from '../../base/errors.ts';
import type { Addon } from './addon.ts';
import { openNetnsBehind } from './find-netns.ts';

/** Connections that wait to be accepted: one is served. */
const BACKLOG = 8;

/**
 * Listens at an abstract name of the network namespace behind the interface of a pod: who connects is in that pod, and no volume is
 * needed. @throws kernel/netns-invalid; agent/socket-unusable when another process of the pod has the name
 */
export function listenInPod(
  addon: Addon,
  { interfaceName, name }: { readonly interfaceName: string; readonly name: string },
  onConnection: (socket: Socket) => void,
): Disposable {
  using netns = openNetnsBehind(addon, interfaceName);
  const server = createServer(onConnection);
  // What `listening` says already. It comes later for whom a name is taken.
  server.on('error', () => undefined);
  // Binds before it returns: the socket stays in the namespace in which it was made.
  netns.run(() => server.listen({ path: name, backlog: BACKLOG }));
  if (!server.listening)
    throw new NetplugError('agent/socket-unusable', `Another process listens at "@${name.slice(1)}" in the pod`, {
      hint: 'Have no other program in the pod that uses this name; the agent before this one gives it up when it ends',
    });
  server.unref();
  return { [Symbol.dispose]: () => void server.close() };
}
