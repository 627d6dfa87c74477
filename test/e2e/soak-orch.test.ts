// NETPLUG_SOAK_CALLS says how long the bad day is, and NETPLUG_SOAK_SEED repeats its decisions.
import { it } from 'vitest';
import { onApi } from '../support/soak/on-api.ts';
import { soakSettings } from '../support/soak/settings.ts';
import { expectSoundSoak } from '../support/soak/soak.ts';

const settings = soakSettings({ calls: 1000, longestMs: 60_000 });

it(
  `${String(settings.calls)} calls while agents, clients and an API server die keep every invariant`,
  { timeout: 300_000 + settings.calls * 300 },
  async () => expectSoundSoak({ datastore: onApi, ...settings }),
);
