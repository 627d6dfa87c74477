import { expect, it } from 'vitest';
import { settingName } from './setting-name.ts';

it.each([
  ['NETPLUG_IP', undefined, 'NETPLUG_IP'],
  ['NETPLUG_IP', 'default', 'spec.calicoNetwork.nodeAddressDetectionV4 of Installation "default"'],
  ['NETPLUG_IP6', 'default', 'spec.calicoNetwork.nodeAddressDetectionV6 of Installation "default"'],
  ['NETPLUG_SOCKET', 'default', 'NETPLUG_SOCKET'],
])('calls %s, with Installation %s, %s', (variable, installation, name) => {
  expect(settingName(variable, installation)).toBe(name);
});
