// NETPLUG_SOAK_CALLS says how long the bad day is, and NETPLUG_SOAK_SEED repeats its decisions.
import { it } from 'vitest';
import { onEtcd } from '../support/soak/on-etcd.ts';
import { soakSettings } from '../support/soak/settings.ts';
import { expectSoundSoak } from '../support/soak/soak.ts';

const settings = soakSettings({ calls: 4000, longestMs: 120_000 });

it(
  `${String(settings.calls)} calls while agents, clients and etcd die keep every invariant`,
  { timeout: 300_000 + settings.calls * 100 },
  async () => expectSoundSoak({ datastore: onEtcd, ...settings }),
);
