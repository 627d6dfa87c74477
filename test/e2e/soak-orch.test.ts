// NETPLUG_SOAK_SEED repeats the decisions of a bad day.
import { it } from 'vitest';
import { SIZES } from '../runs.ts';
import { onApi } from '../support/soak/on-api.ts';
import { soakSettings } from '../support/soak/settings.ts';
import { expectSoundSoak } from '../support/soak/soak.ts';

const settings = soakSettings(SIZES.callsOnApi);

it(
  `${String(settings.calls)} calls while agents, clients and an API server die keep every invariant`,
  { timeout: 300_000 + settings.calls * 300 },
  async () => expectSoundSoak({ datastore: onApi, ...settings }),
);
