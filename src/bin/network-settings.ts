import { join } from 'node:path';
import type { NetworkSettings } from '../apps/agent/network/network-settings.ts';
import { readVariable } from '../config/environment.ts';
import { CONFIG_DIR, INSTALLATION_KEY } from '../install/cluster/names.ts';
import { settingName } from '../install/cluster/setting-name.ts';
import type { NodeName } from '../model/names.ts';
import { readDetection } from '../routing/detect-address-method.ts';
import { readText } from './read-text.ts';

/** Reads the settings of the network process. @throws cni/env-invalid, agent/detection-invalid */
export function networkSettingsIn(env: NodeJS.ProcessEnv, node: NodeName): NetworkSettings {
  return {
    node,
    detection: {
      4: readDetection(readVariable(env, 'NETPLUG_IP')),
      6: readDetection(readVariable(env, 'NETPLUG_IP6')),
    },
    blockSource: readVariable(env, 'USE_POD_CIDR') === 'true' ? 'pod-cidrs' : 'claims',
    sourceCheck: readVariable(env, 'NETPLUG_POD_SOURCE_CHECK'),
    birdLinks: readVariable(env, 'NETPLUG_BIRD_LINKS'),
    settingName: (variable) => settingName(variable, readText(join(CONFIG_DIR, INSTALLATION_KEY))),
  };
}
