import type { HostNetwork } from '../../dataplane/host-network.ts';
import type { Part } from './part.ts';

/** Restores settings of the host that netplug has changed, from its records. */
export function settingsPart(host: HostNetwork): Part {
  return {
    kind: 'setting',
    find: async () => Promise.resolve(host.findChangedSettings()),
    remove: async () => {
      host.restoreSettings();
      return Promise.resolve(
        host.findChangedSettings().map((subject) => ({ subject, reason: 'another program changes it again' })),
      );
    },
  };
}
