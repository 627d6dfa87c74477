import { describe, expect, it } from 'vitest';
import type { InstallationComponent } from '../../model/installation-status.ts';
import { type InstallationReport, isSameStatus, statusOf } from './installation-report.ts';

const READY: InstallationComponent = { name: 'netplug-node', state: 'Ready' };
const REPORT: InstallationReport = {
  generation: 3,
  release: 'v3.27.0',
  problems: [],
  components: [READY],
  isServing: true,
  warnings: [],
  computed: { cni: { type: 'netplug' } },
};
const PROBLEM = { reason: 'InvalidConfiguration', message: 'spec.x: is wrong' } as const;

function shown(report: Partial<InstallationReport>): Record<string, string> {
  const { conditions = [] } = statusOf({ ...REPORT, ...report }, {}, 'now');
  return Object.fromEntries(conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`]));
}

describe('the conditions of an installation', () => {
  it.each<[string, Partial<InstallationReport>, string, string, string]>([
    ['everything runs', {}, 'True Serving', 'False AsConfigured', 'False AsExpected'],
    [
      'a roll-out is under way',
      { components: [{ ...READY, state: 'Progressing' }] },
      'True Serving',
      'True RollingOut',
      'False AsExpected',
    ],
    [
      'a node fails',
      { components: [{ ...READY, state: 'Failing' }] },
      'True Serving',
      'True RollingOut',
      'True ComponentFailing',
    ],
    [
      'a workload cannot be read',
      { components: [{ ...READY, state: 'Unknown' }], isServing: undefined },
      'Unknown CannotRead',
      'Unknown CannotRead',
      'Unknown CannotRead',
    ],
    [
      'an edit is invalid',
      { problems: [PROBLEM] },
      'True Serving',
      'False InvalidConfiguration',
      'True InvalidConfiguration',
    ],
    [
      'the first spec is invalid',
      { problems: [PROBLEM], components: [], isServing: false },
      'False InvalidConfiguration',
      'False InvalidConfiguration',
      'True InvalidConfiguration',
    ],
    [
      'an agent reports an error',
      { reported: { errors: ['node "a": no route'], warnings: [], uncallable: [] } },
      'True Serving',
      'False AsConfigured',
      'True NodesFailing',
    ],
    [
      'the runtime of a node cannot call the plugin',
      { reported: { errors: ['node "a": x'], warnings: [], uncallable: ['node "a": x'] } },
      'False PluginUnusable',
      'False AsConfigured',
      'True NodesFailing',
    ],
    [
      'the installation is removed',
      { components: [], isServing: false, removing: 'Nodes are being cleaned' },
      'False Removing',
      'True Removing',
      'False AsExpected',
    ],
  ])('say so when %s', (_, report, available, progressing, degraded) => {
    expect(shown(report)).toEqual({ Available: available, Progressing: progressing, Degraded: degraded });
  });

  it('keep the time of the last transition, and follow the generation', () => {
    const first = statusOf(REPORT, {}, 'first');
    const second = statusOf({ ...REPORT, generation: 4, problems: [PROBLEM] }, first, 'second');
    expect(second.conditions?.map(({ lastTransitionTime }) => lastTransitionTime)).toEqual([
      'first',
      'first',
      'second',
    ]);
    expect(second.conditions?.map(({ observedGeneration }) => observedGeneration)).toEqual([4, 4, 4]);
    expect(second.summary).toBe('spec.x: is wrong');
    expect(isSameStatus(first, statusOf(REPORT, first, 'later'))).toBe(true);
    expect(isSameStatus(first, second)).toBe(false);
  });

  it('keep the last computed spec while a change is refused', () => {
    const first = statusOf(REPORT, {}, 'first');
    expect(statusOf({ ...REPORT, computed: undefined }, first, 'later').computed).toEqual({ cni: { type: 'netplug' } });
  });
});
