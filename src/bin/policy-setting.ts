import { existsSync } from 'node:fs';
import type { PolicyStart } from '../apps/agent/network/policy-enforcement.ts';
import type { Datastore } from '../config/connection.ts';
import { readVariable } from '../config/environment.ts';
import { policyMarker } from './registration.ts';

interface PolicySetting {
  readonly setting: 'on' | 'off' | 'auto';
  /** Whether policies are enforced from the start. */
  readonly isOn: boolean;
  readonly start: PolicyStart;
  readonly offReason: string;
}

/**
 * Returns whether the agent enforces policies. `auto` is `off` on etcd: no program of this release writes the profiles of
 * namespaces there, and pods without a profile are closed.
 */
export function policySettingIn(env: NodeJS.ProcessEnv, { type }: Datastore): PolicySetting {
  const asked = readVariable(env, 'NETPLUG_POLICY');
  const setting = asked === 'auto' && type !== 'orch' ? 'off' : asked;
  const wasOn = existsSync(policyMarker(env));
  const isOn = setting === 'on' || (setting === 'auto' && wasOn);
  return {
    setting,
    isOn,
    start: isOn ? 'enforce' : setting === 'auto' ? 'on demand' : asked === 'off' || wasOn ? 'remove' : 'ignore',
    offReason:
      asked === 'off' ? 'NETPLUG_POLICY of the agent is off' : 'NETPLUG_POLICY of the agent is not "on", as etcd needs',
  };
}
