import { describe, expect, it } from 'vitest';
import {
  closesIsolated,
  type EnforcementEvent,
  type EnforcementStage,
  isEnforcing,
  nextStage,
} from './enforcement-stage.ts';

const after = (...events: readonly EnforcementEvent[]): EnforcementStage =>
  events.reduce<EnforcementStage>(nextStage, { kind: 'off' });
const EVENTS: readonly EnforcementEvent[] = [
  'switched on',
  'datastore read',
  'settings passed',
  'written',
  'unknown pods closed',
  'write failed',
];

describe('the stage of policy enforcement', () => {
  it('stays off, whatever else happens, until enforcement is switched on', () => {
    for (const event of EVENTS.filter((each) => each !== 'switched on')) expect(after(event)).toEqual({ kind: 'off' });
    expect(after('switched on')).toEqual({ kind: 'reading', closed: 'none' });
  });

  it('allows the first policies when the datastore was read and the settings have passed, in this order', () => {
    expect(after('switched on', 'settings passed')).toEqual(after('switched on'));
    expect(after('switched on', 'datastore read')).toEqual({ kind: 'held', closed: 'none' });
    const enforcing = after('switched on', 'datastore read', 'settings passed');
    expect(enforcing).toEqual({ kind: 'enforcing', closed: 'none' });
    expect([after('switched on'), after('switched on', 'datastore read'), enforcing].map(isEnforcing)).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('does not go back when the datastore is read again or enforcement is switched on again', () => {
    const enforcing = after('switched on', 'unknown pods closed', 'datastore read', 'settings passed');
    for (const event of ['switched on', 'datastore read', 'settings passed'] as const)
      expect(nextStage(enforcing, event)).toEqual(enforcing);
  });

  it('counts isolated pods as closed after a write, and no longer after one that fails', () => {
    expect(closesIsolated(after('switched on'))).toBe(false);
    expect(closesIsolated(after('switched on', 'written'))).toBe(true);
    expect(closesIsolated(after('switched on', 'written', 'write failed'))).toBe(false);
    expect(closesIsolated(after('switched on', 'written', 'write failed', 'written'))).toBe(true);
  });

  it('counts isolated pods as closed for good once the kernel closes all pods that it does not know', () => {
    const closed = after('switched on', 'unknown pods closed');
    for (const event of EVENTS) expect(closesIsolated(nextStage(closed, event))).toBe(true);
    expect(nextStage(closed, 'written')).toEqual(closed);
  });

  it('keeps which pods are closed when it changes from reading to enforcing', () => {
    const stage = after('switched on', 'written', 'datastore read', 'settings passed');
    expect(stage).toEqual({ kind: 'enforcing', closed: 'isolated' });
  });
});
