import { expect, it } from 'vitest';
import type { HostEvent } from '../host-network.ts';
import { RTM_NEWADDR } from './address-messages.ts';
import type { Addon } from './addon.ts';
import { watchHost } from './host-events.ts';
import { encodeMessage } from './netlink.ts';

const NLMSG_DONE = 3;
const ENOBUFS = -105;
/** An address that is not global, which produces no event. */
const IGNORED = encodeMessage({ type: RTM_NEWADDR, flags: 0, body: Buffer.alloc(8, 255) }, 0);

/** A kernel without links, and a function that delivers its messages. */
function quietKernel(): { readonly addon: Addon; readonly notify: (note: Buffer | number) => void } {
  let onNote: (note: Buffer | number) => void = () => undefined;
  const addon: Partial<Addon> = {
    openMonitor: (_groups, callback) => {
      onNote = callback;
      return 1;
    },
    openRouteSocket: () => 1,
    exchange: (_fd, request) =>
      encodeMessage({ type: NLMSG_DONE, flags: 0, body: Buffer.alloc(4) }, Buffer.from(request).readUInt32LE(8)),
    close: () => 0,
  };
  return { addon: addon as Addon, notify: (note) => onNote(note) };
}

it('reports an unknown event when the kernel has dropped messages', () => {
  const { addon, notify } = quietKernel();
  const events: HostEvent[] = [];
  using _watch = watchHost(addon, (event) => events.push(event));
  notify(IGNORED);
  expect(events).toEqual([]);
  notify(ENOBUFS);
  expect(events).toEqual([{ kind: 'unknown' }]);
});
