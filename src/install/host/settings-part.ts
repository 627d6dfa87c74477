import type { HostNetwork } from '../../dataplane/host-network.ts';
import type { Part } from './part.ts';

/** Settings of the host that netplug changed, put back as its records have them. */
export function settingsPart(host: HostNetwork): Part {
  return {
    kind: 'setting',
    find: async () => Promise.resolve(host.findChangedSettings()),
    remove: async () => {
      host.restoreSettings();
      return Promise.resolve(host.findChangedSettings().map((subject) => ({ subject, reason: 'it changes again' })));
    },
  };
}
