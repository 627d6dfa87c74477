import type { TableEvents } from '../table-events.ts';
import { loadAddon } from './addon.ts';
import { CHANGE_GROUP, changeReader } from './change-messages.ts';
import { kernelFailure } from './route-socket.ts';

const WHAT = 'watch the nftables tables';

/** Changes in the network namespace of the calling thread; `isOwn` says whether a socket of this process has the port. */
export function linuxTableEvents(isOwn: (port: number) => boolean, addonPath?: string): TableEvents {
  return {
    watch: (tables, onChange) => {
      const addon = loadAddon(addonPath);
      const fd = addon.openFilterSocket();
      if (fd < 0) throw kernelFailure('open a netfilter socket', -fd);
      const joined = addon.joinGroup(fd, CHANGE_GROUP);
      if (joined !== 0) {
        addon.close(fd);
        throw kernelFailure(WHAT, -joined);
      }
      const read = changeReader(tables, isOwn);
      let isOver = false;
      const end = addon.monitorSocket(fd, (note) => {
        if (isOver) return;
        // A number means that the kernel has dropped messages.
        const changes = typeof note === 'number' ? [{ tables: 'unknown', program: undefined } as const] : read(note);
        for (const change of changes) onChange(change);
      });
      if (end < 0) throw kernelFailure(WHAT, -end);
      return {
        [Symbol.dispose]: () => {
          if (!isOver) addon.close(end);
          isOver = true;
        },
      };
    },
  };
}
