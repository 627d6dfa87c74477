import { loadAddon } from './addon.ts';
import { kernelFailure } from './route-socket.ts';

/**
 * Has the kernel kill this process when its parent dies, also while it is busy or stopped. Children do not inherit it.
 * @throws kernel/failed
 */
export function dieWithParent(): void {
  const result = loadAddon().dieWithParent();
  if (result !== 0) throw kernelFailure('bind the life of the process to that of its parent', -result);
}
