import { describe, expect, it } from 'vitest';
import { systemClock, virtualClock } from './clock.ts';
import { Trigger } from './trigger.ts';

const never = new AbortController().signal;

describe('a trigger', () => {
  it('ends a wait when it is set, also before the wait and before its limit', async () => {
    const trigger = new Trigger();
    trigger.set();
    await trigger.wait(never);
    trigger.clear();
    const waits = [trigger.wait(never)];
    trigger.set();
    await Promise.all(waits);
    trigger.clear();
    const limited = trigger.wait(never, { limitMs: 2 ** 31 - 1, clock: systemClock });
    trigger.set();
    await limited;
    expect(trigger.isSet).toBe(true);
  });

  it('does not end a wait before its limit when it was cleared', async () => {
    const trigger = new Trigger();
    trigger.set();
    trigger.clear();
    const clock = virtualClock();
    await trigger.wait(never, { limitMs: 50, clock });
    expect({ isSet: trigger.isSet, now: clock.now() }).toEqual({ isSet: false, now: 50 });
  });

  it('ends a wait when the signal aborts', async () => {
    const stop = new AbortController();
    const waited = new Trigger().wait(stop.signal);
    stop.abort();
    await expect(waited).resolves.toBeUndefined();
    await expect(new Trigger().wait(stop.signal)).resolves.toBeUndefined();
  });
});
