// NETPLUG_SOAK_SEED repeats the decisions of a bad day.
import { it } from 'vitest';
import { SIZES } from '../runs.ts';
import { onEtcd } from '../support/soak/on-etcd.ts';
import { soakSettings } from '../support/soak/settings.ts';
import { expectSoundSoak } from '../support/soak/soak.ts';

const settings = soakSettings(SIZES.callsOnEtcd);

it(
  `${String(settings.calls)} calls while agents, clients and etcd die keep every invariant`,
  { timeout: 300_000 + settings.calls * 100 },
  async () => expectSoundSoak({ datastore: onEtcd, ...settings }),
);
